/** Users of the cluster with some rights in some namespaces, and a kubeconfig for each. */
import { join } from "node:path";
import type { Need } from "../../functions/shared/contract/definition.ts";
import type { Api } from "../controlplane/api.ts";
import { writeKubeconfig } from "../controlplane/configuration.ts";
import type { ControlPlane } from "../controlplane/controlplane.ts";
import type { LogLine } from "../support/server.ts";

/** Creates a ServiceAccount, and resolves to the path of its kubeconfig. The namespace must exist. */
export async function createUser(
  controlPlane: ControlPlane,
  api: Api,
  namespace: string,
  name: string,
): Promise<string> {
  const accounts = `/api/v1/namespaces/${namespace}/serviceaccounts`;
  await api.post(accounts, { apiVersion: "v1", kind: "ServiceAccount", metadata: { name } });
  const { status } = await api.post<{ status: { token: string } }>(`${accounts}/${name}/token`, {
    apiVersion: "authentication.k8s.io/v1",
    kind: "TokenRequest",
    spec: {},
  });
  const path = join(controlPlane.directory, `${namespace}-${name}.kubeconfig`);
  await writeKubeconfig(path, controlPlane.url, status.token, controlPlane.caFile);
  return path;
}

/** Gives a ServiceAccount a function's declared rights in one namespace, and no others. */
export async function grant(
  api: Api,
  namespace: string,
  account: { readonly namespace: string; readonly name: string },
  needs: readonly Need[],
): Promise<void> {
  const path = `/apis/rbac.authorization.k8s.io/v1/namespaces/${namespace}`;
  const rules = needs.map(({ group, resource, verbs }) => ({ apiGroups: [group], resources: [resource], verbs }));
  const metadata = { name: "sluice" };
  await api.post(`${path}/roles`, { apiVersion: "rbac.authorization.k8s.io/v1", kind: "Role", metadata, rules });
  await api.post(`${path}/rolebindings`, {
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "RoleBinding",
    metadata,
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: metadata.name },
    subjects: [{ kind: "ServiceAccount", ...account }],
  });
}

/**
 * Every process that may replace rollout-operator, or answers reviews, also lists the webhook configurations of the whole
 * cluster: without the right it reports that and goes on. No function needs them.
 */
const alsoRead = /\b(mutating|validating)webhookconfigurations\b/;

/** The errors of a server, except those about rights that its functions do not need. */
export function complaintsIn(log: readonly LogLine[]): LogLine[] {
  return log.filter(({ level, msg, resource }) => level !== "info" && !alsoRead.test(`${msg} ${resource}`));
}

/** The requests that were refused for a missing right, except those that its functions do not need. */
export function refusalsIn<Request extends { readonly code: number | undefined; readonly resource: string }>(
  requests: readonly Request[],
): Request[] {
  return requests.filter(({ code, resource }) => (code === 403 || code === 401) && !alsoRead.test(resource));
}
