/** The account of the played agents, and its token in a file, which a kubelet would also write anew before it ends. */
import { copyFileSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { replaceFile } from "../../functions/shared/base/replace-file.ts";
import type { Api } from "../controlplane/api.ts";

const name = "fence-agent";
/** A token lasts an hour. */
const renewEveryMs = 20 * 60_000;

export class AgentCredentials {
  readonly folder: string;
  readonly #api: Api;
  readonly #tokens: string;
  readonly #renewals: NodeJS.Timeout;

  private constructor(api: Api, folder: string, tokens: string) {
    this.#api = api;
    this.folder = folder;
    this.#tokens = tokens;
    // A renewal that fails is followed by others before the token ends.
    this.#renewals = setInterval(() => void this.renew().catch(() => undefined), renewEveryMs).unref();
  }

  /** Makes the namespace, and in it an account with the rights that agents need, and no other. */
  static async write(api: Api, namespace: string, folder: string, caFile: string): Promise<AgentCredentials> {
    const rbac = "rbac.authorization.k8s.io";
    const subjects = [{ kind: "ServiceAccount", name, namespace }];
    const leases = { apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs: ["get", "create", "patch"] };
    const nodes = { apiGroups: [""], resources: ["nodes"], verbs: ["get"] };
    const inNamespace = `/apis/${rbac}/v1/namespaces/${namespace}`;
    await api.post("/api/v1/namespaces", { metadata: { name: namespace } });
    const accounts = `/api/v1/namespaces/${namespace}/serviceaccounts`;
    await api.post(accounts, { metadata: { name } });
    await api.post(`${inNamespace}/roles`, { metadata: { name }, rules: [leases] });
    const role = { apiGroup: rbac, kind: "Role", name };
    await api.post(`${inNamespace}/rolebindings`, { metadata: { name }, roleRef: role, subjects });
    await api.post(`/apis/${rbac}/v1/clusterroles`, { metadata: { name }, rules: [nodes] });
    const roleRef = { ...role, kind: "ClusterRole" };
    await api.post(`/apis/${rbac}/v1/clusterrolebindings`, { metadata: { name }, roleRef, subjects });
    mkdirSync(folder, { recursive: true });
    copyFileSync(caFile, join(folder, "ca.crt"));
    const credentials = new AgentCredentials(api, folder, `${accounts}/${name}/token`);
    await credentials.renew();
    return credentials;
  }

  /** Agents read the new token at their next request. */
  async renew(): Promise<void> {
    const { status } = await this.#api.post<{ status: { token: string } }>(this.#tokens, { spec: {} });
    replaceFile(join(this.folder, "token"), status.token, { mode: 0o600, isDurable: false });
  }

  stop(): void {
    clearInterval(this.#renewals);
  }
}
