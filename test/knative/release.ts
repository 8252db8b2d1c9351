/** A namespace that is deleted with finalizers of Sluice in it: what the account of `release-namespace` needs for that. */
import { eventually } from "../controlplane/api.ts";
import type { Built } from "../support/kubectl.ts";
import type { Scene } from "../support/scene.ts";
import { addVolume } from "./suspend.ts";

interface Finalized {
  readonly metadata: { readonly finalizers?: readonly string[] };
}

/** Keeps an object in a namespace that is being deleted, so that the walk ends before the account does. */
const kept = "example.com/kept";
const volumeHold = "sluice.dev/volume-hold";
const releaseFinalizer = "sluice.dev/release-prestop";

/** The volume of the claim is on hold, so that it has to be retained before the claim goes. `objects`: what is installed. */
export async function release({ api, group: { namespace } }: Scene, objects: readonly Built[]): Promise<void> {
  for (const path of objects.flatMap((object) => accountPathOf(namespace, object)))
    await api.patch(path, { metadata: { finalizers: [kept] } });
  const claims = `/api/v1/namespaces/${namespace}/persistentvolumeclaims`;
  const clusters = `/apis/rabbitmq.com/v1beta1/namespaces/${namespace}/rabbitmqclusters`;
  const volume = await addVolume(api, namespace, "held");
  const onHold = { annotations: { "sluice.dev/hold": "true" }, finalizers: [kept, volumeHold] };
  await api.patch(`${claims}/held`, { metadata: onHold });
  await api.post(clusters, {
    apiVersion: "rabbitmq.com/v1beta1",
    kind: "RabbitmqCluster",
    metadata: { name: "held", finalizers: [kept, releaseFinalizer] },
    spec: {},
  });
  await api.delete(`/api/v1/namespaces/${namespace}`);
  for (const path of [`${claims}/held`, `${clusters}/held`])
    await eventually(`${path} without Sluice's finalizers`, 60_000, async () => {
      const { finalizers = [] } = (await api.get<Finalized>(path)).metadata;
      return finalizers.some((one) => one.startsWith("sluice.dev/")) ? undefined : true;
    });
  const { spec } = await api.get<{ spec: { persistentVolumeReclaimPolicy: string } }>(
    `/api/v1/persistentvolumes/${volume}`,
  );
  if (spec.persistentVolumeReclaimPolicy !== "Retain") throw new Error(`${volume} is not retained`);
}

/** The Secret stays as well: the account would make it anew, which it may not. */
const accountKinds: Readonly<Record<string, string>> = {
  Secret: "api/v1/namespaces/NAMESPACE/secrets",
  ServiceAccount: "api/v1/namespaces/NAMESPACE/serviceaccounts",
  Role: "apis/rbac.authorization.k8s.io/v1/namespaces/NAMESPACE/roles",
  RoleBinding: "apis/rbac.authorization.k8s.io/v1/namespaces/NAMESPACE/rolebindings",
};

/** The path of what the namespace has for an account; none for other objects, and in other namespaces. */
function accountPathOf(namespace: string, { kind, metadata: { name, namespace: place } }: Built): string[] {
  const folder = accountKinds[kind];
  return folder === undefined || place !== namespace ? [] : [`/${folder.replace("NAMESPACE", namespace)}/${name}`];
}
