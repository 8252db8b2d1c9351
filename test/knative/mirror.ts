/** Zones of the size of a ReplicaTemplate and of a StatefulSet: what the functions that mirror need for it. */
import assert from "node:assert/strict";
import { eventually } from "../controlplane/api.ts";
import { auditPosition, readAudit } from "../controlplane/audit.ts";
import { createGroup } from "../controlplane/fixtures.ts";
import type { Ingesters } from "../support/ingester.ts";
import { changed, post } from "../support/posted.ts";
import type { Scene } from "../support/scene.ts";
import { alone, budgets, type Cast } from "./walk.ts";

/**
 * Zones that mirror a ReplicaTemplate, and a StatefulSet: their functions read these scales, and write back to the first.
 * `home`: the namespace of the accounts.
 */
export async function mirror(
  scene: Scene,
  { delayed, follower }: Cast,
  ingesters: Ingesters,
  home: string,
): Promise<void> {
  const { api, controlPlane, group } = scene;
  const { namespace } = group;
  const path = `/apis/${budgets}/namespaces/${namespace}/replicatemplates`;
  const metadata = { name: "mirrored" };
  // The size is written back once, maybe before the second group is made.
  const start = await auditPosition(controlPlane.auditLog);
  await api.post(path, { apiVersion: budgets, kind: "ReplicaTemplate", metadata, spec: { replicas: 2 } });
  const from = "grafana.com/rollout-mirror-replicas-from-resource";
  const mirrors = {
    templated: {
      [`${from}-name`]: metadata.name,
      [`${from}-kind`]: "ReplicaTemplate",
      [`${from}-api-version`]: budgets,
    },
    // Forced, so that it differs from what it mirrors and gets no smaller.
    paired: {
      [`${from}-name`]: `${alone}-zone-a`,
      [`${from}-kind`]: "StatefulSet",
      "grafana.com/rollout-force-replicas": "2",
    },
  };
  const slowly = {
    "grafana.com/rollout-delayed-downscale": "1h",
    "grafana.com/rollout-prepare-delayed-downscale-url": ingesters.url,
  };
  for (const [name, annotations] of Object.entries(mirrors)) {
    const own = { ...annotations, ...slowly };
    await createGroup(controlPlane, { name, namespace, zones: 1, pods: 2, annotations: own });
  }
  const readers = new Set([delayed, follower]).size;
  await eventually(
    "each scale read by its readers, and a size written back",
    60_000,
    async () => {
      for (const name of Object.keys(mirrors))
        for (const server of [delayed, follower])
          assert.equal(await post(server, changed("StatefulSet", namespace, `${name}-zone-a`)), 204);
      const mirrored = [metadata.name, `${alone}-zone-a`];
      const done = await actsOn(mirrored, { namespace, home }, controlPlane.auditLog, start);
      const isRead = (plural: string) => done.get(`get ${plural}/scale`)?.size === readers;
      assert.ok(!done.has("patch statefulsets/status"), "its controller writes that, and would undo it at once");
      const isWritten = done.has("patch replicatemplates/status");
      return isRead("replicatemplates") && isRead("statefulsets") && isWritten ? true : undefined;
    },
    1_000,
  );
  for (const name of Object.keys(mirrors))
    await api.patch(scene.statefulSetPath(`${name}-zone-a`), { metadata: { annotations: { [`${from}-name`]: null } } });
}

/** Which accounts of namespace `home` succeeded with what in `namespace`, from byte `from` of the audit log on. */
async function actsOn(
  names: readonly string[],
  { namespace, home }: { readonly namespace: string; readonly home: string },
  auditLog: string,
  from: number,
) {
  const acts = new Map<string, Set<string>>();
  for await (const entry of readAudit(auditLog, { from }, () => {})) {
    const { user, verb, resource, name = "", code } = entry;
    if (code !== 200 || entry.namespace !== namespace || !names.includes(name)) continue;
    if (!user.startsWith(`system:serviceaccount:${home}:`)) continue;
    const act = `${verb} ${resource}`;
    acts.set(act, (acts.get(act) ?? new Set()).add(user));
  }
  return acts;
}
