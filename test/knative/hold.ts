/** A process group whose removal is held back and then taken back: what the account of `hold-process-groups` needs for that. */
import { eventually } from "../controlplane/api.ts";
import { type ClusterObject, labels } from "../stage/foundationdb.ts";
import { changed, post, tick } from "../stage/posted.ts";
import type { Scene } from "../stage/scene.ts";
import type { Server } from "../stage/server.ts";

const name = "orders";
const id = "storage-1";
const apiVersion = "apps.foundationdb.org/v1beta2";
/** Each look is a pass of everything that a function has, beside others that use the machine. In milliseconds. */
const everyMs = 1_000;

/** Nothing goes: the mode is `None`. */
export async function hold(
  { api, group: { namespace } }: Scene,
  { holder }: { readonly holder: Server },
): Promise<void> {
  const clusters = `/apis/${apiVersion}/namespaces/${namespace}/foundationdbclusters`;
  const claims = `/api/v1/namespaces/${namespace}/persistentvolumeclaims`;
  const annotations = { "sluice.dev/suspend-duration": "1h", "sluice.dev/removal-mode": "None" };
  const spec = { processGroupsToRemove: [id] };
  await api.post(clusters, { apiVersion, kind: "FoundationDBCluster", metadata: { name, annotations }, spec });
  const removalTimestamp = new Date().toISOString();
  const processGroups = [{ processGroupID: id, faultDomain: "zone-a", removalTimestamp, exclusionSkipped: false }];
  await api.patch(`${clusters}/${name}/status`, { status: { processGroups } });
  await api.post(claims, {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { name: `${name}-${id}-data`, labels: { [labels.cluster]: name, [labels.id]: id } },
    spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } },
  });
  const until = (what: string, isSo: (cluster: ClusterObject) => boolean) =>
    eventually(
      what,
      60_000,
      async () => {
        await post(holder, changed("FoundationDBCluster", namespace, name));
        await post(holder, tick);
        return isSo(await api.get<ClusterObject>(`${clusters}/${name}`)) ? true : undefined;
      },
      everyMs,
    );
  await until("its removal held back", ({ spec: now }) => now?.buggify?.blockRemoval?.join() === id);
  await api.patch(`${claims}/${name}-${id}-data`, { metadata: { annotations: { "sluice.dev/recover": "true" } } });
  await until("its removal taken back", ({ status }) => status?.processGroups?.[0]?.removalTimestamp === undefined);
}
