/** A pod whose volume is suspended and then removed: what the accounts of both functions need for that. */
import { ledgerName } from "../../functions/shared/ledger/lease-name.ts";
import { eventually } from "../controlplane/api.ts";
import { auditPosition, readAudit } from "../controlplane/audit.ts";
import { createGroup, waitForGroupReady } from "../controlplane/fixtures.ts";
import { changed, post, tick } from "../support/posted.ts";
import type { Scene } from "../support/scene.ts";
import type { Server } from "../support/server.ts";

interface Object {
  readonly metadata: { readonly uid: string; readonly annotations?: Readonly<Record<string, string>> };
  readonly spec: Readonly<Record<string, string>>;
}

const name = "kept";
/** How its process groups go its own object would say. */
const foundation = "FoundationDBCluster.apps.foundationdb.org/owned";
/** Each reconcile is a reconcile of everything that a function has, beside others that use the machine. In milliseconds. */
const everyMs = 1_000;

/**
 * Its PersistentVolume is kept, so that it has to be changed. The ledger is lost in between, until the collector, by the name
 * of `user`, has made another.
 */
export async function suspend(
  { api, controlPlane, group: { namespace } }: Scene,
  { suspender, collector }: { readonly suspender: Server; readonly collector: Server },
  user: string,
): Promise<void> {
  const claim = `data-${name}-zone-a-1`;
  const claims = `/api/v1/namespaces/${namespace}/persistentvolumeclaims`;
  const volume = await addVolume(api, namespace, claim);
  const annotations = {
    "sluice.dev/suspend-duration": "1s",
    "sluice.dev/wait-between-removals": "1s",
    "sluice.dev/retain-pv": "true",
  };
  const group = await createGroup(controlPlane, { name, namespace, zones: 1, pods: 2, volumes: ["data"], annotations });
  await waitForGroupReady(controlPlane, group);
  const owned = await addOwned(api, namespace, { ...annotations, "sluice.dev/hold": "true" });
  // Not older than the volume claims and their pods: such a word is no proof.
  const word = { "sluice.dev/suspend": "true", "sluice.dev/drained-at": new Date().toISOString() };
  for (const one of [claim, owned]) await api.patch(`${claims}/${one}`, { metadata: { annotations: word } });
  const ask = () => api.get<Object>(`${claims}/${claim}`).catch(() => undefined);
  for (const wanted of [claim, owned]) {
    const suspended = async () => {
      await post(suspender, changed("PersistentVolumeClaim", namespace, wanted));
      await post(suspender, tick);
      const { metadata } = await api.get<Object>(`${claims}/${wanted}`);
      return metadata.annotations?.["sluice.dev/suspend-state"] === "Suspended" ? true : undefined;
    };
    await eventually(`${wanted} suspended`, 60_000, suspended, everyMs);
  }
  const ledger = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/${ledgerName(name)}`;
  const collect = async () => {
    await post(collector, changed("PersistentVolumeClaim", namespace, claim));
    await post(collector, tick);
  };
  const from = await auditPosition(controlPlane.auditLog);
  // The other function may look once more and make it, too.
  const made = async () => {
    await (await api.send("DELETE", ledger)).body.dump();
    await collect();
    await eventually("another ledger", 30_000, () => api.get(ledger).catch(() => undefined));
    for await (const entry of readAudit(controlPlane.auditLog, { from }, () => {}))
      if (entry.user === user && entry.verb === "create" && entry.resource === "leases") return true;
    return undefined;
  };
  await eventually("a ledger made by the collector", 60_000, made, everyMs);
  // The collector asks by its name for a pod that is reserved and that no view shows.
  const reserved = { [`${name}-zone-a`]: { 1: ["of-long-ago", "advance-zone-rollout", Date.now()] } };
  await api.patch(ledger, { metadata: { annotations: { "sluice.dev/reservations": JSON.stringify(reserved) } } });
  const gone = async () => {
    await collect();
    return (await ask()) === undefined ? true : undefined;
  };
  await eventually("the volume claim gone", 60_000, gone, everyMs);
  const { spec } = await api.get<Object>(`/api/v1/persistentvolumes/${volume}`);
  if (spec.persistentVolumeReclaimPolicy !== "Retain") throw new Error(`${volume} is not kept`);
}

/** A pod whose owner is no StatefulSet, with a volume claim, whose name it resolves to. */
async function addOwned(
  api: Scene["api"],
  namespace: string,
  texts: Readonly<Record<string, string>>,
): Promise<string> {
  const claim = "owned-data";
  const core = `/api/v1/namespaces/${namespace}`;
  await api.post(`${core}/persistentvolumeclaims`, {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { name: claim, annotations: { ...texts, "sluice.dev/owner": foundation } },
    spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } },
  });
  await api.post(`${core}/pods`, {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "owned", labels: { "sluice.dev/suspendable": "true" } },
    spec: {
      containers: [{ name: "db", image: "db:1" }],
      volumes: [{ name: "data", persistentVolumeClaim: { claimName: claim } }],
    },
  });
  return claim;
}

/** A volume claim with a PersistentVolume of its own, which Kubernetes would delete; resolves to the name of the volume. */
export async function addVolume(api: Scene["api"], namespace: string, claim: string): Promise<string> {
  const claims = `/api/v1/namespaces/${namespace}/persistentvolumeclaims`;
  const volume = `${namespace}-${claim}`;
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
  return volume;
}
