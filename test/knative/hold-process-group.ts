/** A process group whose removal is held back and then taken back: what the account of `hold-process-groups` needs for that. */
import { eventually } from "../controlplane/api.ts";
import { type ClusterObject, labels } from "../support/foundationdb.ts";
import { changed, post, tick } from "../support/posted.ts";
import type { Scene } from "../support/scene.ts";
import type { Server } from "../support/server.ts";

const name = "orders";
const id = "storage-1";
const claim = `${name}-${id}-data`;
const apiVersion = "apps.foundationdb.org/v1beta2";
/** Each reconcile is a reconcile of everything that a function has, beside others that use the machine. In milliseconds. */
const everyMs = 1_000;

/** Nothing goes: the mode is `None`. Volumes are protected meanwhile, and not any more in the end. */
export async function holdProcessGroup(
  { api, group: { namespace } }: Scene,
  { holder }: { readonly holder: Server },
): Promise<void> {
  const clusters = `/apis/${apiVersion}/namespaces/${namespace}/foundationdbclusters`;
  const claims = `/api/v1/namespaces/${namespace}/persistentvolumeclaims`;
  const annotations = { "sluice.dev/suspend-duration": "1h", "sluice.dev/removal-mode": "None" };
  const protection = { "sluice.dev/protect-volumes": "true" };
  const spec = { processGroupsToRemove: [id] };
  const { metadata } = await api.post<ClusterObject>(clusters, {
    apiVersion,
    kind: "FoundationDBCluster",
    metadata: { name, annotations: { ...annotations, ...protection } },
    spec,
  });
  const removalTimestamp = new Date().toISOString();
  const processGroups = [{ processGroupID: id, faultDomain: "zone-a", removalTimestamp, exclusionSkipped: false }];
  await api.patch(`${clusters}/${name}/status`, { status: { processGroups } });
  await api.post(claims, {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: {
      name: claim,
      labels: { [labels.cluster]: name, [labels.id]: id },
      ownerReferences: [{ apiVersion, kind: "FoundationDBCluster", name, uid: metadata.uid }],
    },
    spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } },
  });
  const until = (what: string, isSo: (cluster: ClusterObject) => boolean) =>
    eventually(
      what,
      60_000,
      async () => {
        await post(holder, changed("FoundationDBCluster", namespace, name));
        await post(holder, changed("PersistentVolumeClaim", namespace, claim));
        await post(holder, tick);
        return isSo(await api.get<ClusterObject>(`${clusters}/${name}`)) ? true : undefined;
      },
      everyMs,
    );
  await until("its removal held back", ({ spec: now }) => now?.buggify?.blockRemoval?.join() === id);
  await api.patch(`${claims}/${claim}`, { metadata: { annotations: { "sluice.dev/recover": "true" } } });
  await until("its removal taken back", ({ status }) => status?.processGroups?.[0]?.removalTimestamp === undefined);
  await api.patch(`${clusters}/${name}`, { metadata: { annotations: { "sluice.dev/protect-volumes": "false" } } });
  await eventually(
    "its volume claim not protected any more",
    60_000,
    async () => {
      await post(holder, changed("FoundationDBCluster", namespace, name));
      const { metadata: now } = await api.get<ClusterObject>(`${claims}/${claim}`);
      return now.finalizers?.includes("sluice.dev/volume-protection") ? undefined : true;
    },
    everyMs,
  );
}
