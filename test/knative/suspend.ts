/** A pod whose volume is suspended and then removed: what the accounts of both functions need for that. */
import { ledgerName } from "../../functions/shared/ledger/name.ts";
import { eventually } from "../controlplane/api.ts";
import { auditPosition, readAudit } from "../controlplane/audit.ts";
import { createGroup, waitForGroupReady } from "../controlplane/fixtures.ts";
import { changed, post, tick } from "../stage/posted.ts";
import type { Scene } from "../stage/scene.ts";
import type { Server } from "../stage/server.ts";

interface Object {
  readonly metadata: { readonly uid: string; readonly annotations?: Readonly<Record<string, string>> };
  readonly spec: Readonly<Record<string, string>>;
}

const name = "kept";

/**
 * Its PersistentVolume is kept, so that it has to be changed. The ledger is lost in between, until whoever collects, by the name
 * of `user`, has made another.
 */
export async function suspend(
  { api, controlPlane, group: { namespace } }: Scene,
  { suspender, collector }: { readonly suspender: Server; readonly collector: Server },
  user: string,
): Promise<void> {
  const claim = `data-${name}-zone-a-1`;
  const claims = `/api/v1/namespaces/${namespace}/persistentvolumeclaims`;
  const volume = `${namespace}-${name}`;
  const size = { storage: "1Gi" };
  const accessModes = ["ReadWriteOnce"];
  const { uid } = (
    await api.post<Object>(claims, {
      apiVersion: "v1",
      kind: "PersistentVolumeClaim",
      metadata: { name: claim },
      spec: { volumeName: volume, accessModes, resources: { requests: size } },
    })
  ).metadata;
  await api.post("/api/v1/persistentvolumes", {
    apiVersion: "v1",
    kind: "PersistentVolume",
    metadata: { name: volume },
    spec: {
      capacity: size,
      accessModes,
      persistentVolumeReclaimPolicy: "Delete",
      hostPath: { path: "/nowhere" },
      claimRef: { namespace, name: claim, uid },
    },
  });
  const annotations = {
    "sluice.dev/suspend-duration": "1s",
    "sluice.dev/wait-between-removals": "1s",
    "sluice.dev/retain-pv": "true",
  };
  const made = await createGroup(controlPlane, { name, namespace, zones: 1, pods: 2, volumes: ["data"], annotations });
  await waitForGroupReady(controlPlane, made);
  const word = { "sluice.dev/suspend": "true", "sluice.dev/drained-at": new Date().toISOString() };
  await api.patch(`${claims}/${claim}`, { metadata: { annotations: word } });
  const ask = () => api.get<Object>(`${claims}/${claim}`).catch(() => undefined);
  await eventually("the volume claim suspended", 60_000, async () => {
    await post(suspender, changed("PersistentVolumeClaim", namespace, claim));
    await post(suspender, tick);
    return (await ask())?.metadata.annotations?.["sluice.dev/suspend-state"] === "Suspended" ? true : undefined;
  });
  const ledger = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/${ledgerName(name)}`;
  const collect = async () => {
    await post(collector, changed("PersistentVolumeClaim", namespace, claim));
    await post(collector, tick);
  };
  const from = await auditPosition(controlPlane.auditLog);
  // The other function may look once more and make it, too.
  await eventually("a ledger made by whoever collects", 60_000, async () => {
    await (await api.send("DELETE", ledger)).body.dump();
    await collect();
    await eventually("another ledger", 30_000, () => api.get(ledger).catch(() => undefined));
    for await (const entry of readAudit(controlPlane.auditLog, { from }, () => {}))
      if (entry.user === user && entry.verb === "create" && entry.resource === "leases") return true;
    return undefined;
  });
  // What somebody has reserved and no view shows is asked for by its name.
  const reserved = { [`${name}-zone-a`]: { 1: ["of-long-ago", "advance-zone-rollout", Date.now()] } };
  await api.patch(ledger, { metadata: { annotations: { "sluice.dev/reservations": JSON.stringify(reserved) } } });
  await eventually("the volume claim gone", 60_000, async () => {
    await collect();
    return (await ask()) === undefined ? true : undefined;
  });
  const { spec } = await api.get<Object>(`/api/v1/persistentvolumes/${volume}`);
  if (spec.persistentVolumeReclaimPolicy !== "Retain") throw new Error(`${volume} is not kept`);
}
