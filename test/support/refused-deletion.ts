/** A pod that a user may not delete, whatever rights the user has. */
import { ApiError, eventually } from "../controlplane/api.ts";
import type { Scene } from "./scene.ts";

export interface Refusal {
  /** A user for whom this also holds, besides the administrator. */
  readonly user?: string;
  /** Reason of the API server's answer: 403 or 422. */
  readonly reason?: "Forbidden" | "Invalid";
}

/** Makes the API server refuse every deletion of one pod by the administrator. Resolves when it does. */
export async function refuseDeletion(
  { api, group: { namespace } }: Scene,
  pod: string,
  { user = "admin", reason = "Forbidden" }: Refusal = {},
): Promise<void> {
  const kind = "ValidatingAdmissionPolicy";
  const apiVersion = "admissionregistration.k8s.io/v1";
  const metadata = { name: `keep-${namespace}-${pod}` };
  const users = `['admin', '${user}']`;
  await api.post(`/apis/${apiVersion}/validatingadmissionpolicies`, {
    apiVersion,
    kind,
    metadata,
    spec: {
      matchConstraints: {
        resourceRules: [{ apiGroups: [""], apiVersions: ["v1"], operations: ["DELETE"], resources: ["pods"] }],
      },
      validations: [
        {
          expression: `request.namespace != '${namespace}' || request.name != '${pod}' || !(request.userInfo.username in ${users})`,
          message: "this pod holds the last copy",
          reason,
        },
      ],
    },
  });
  await api.post(`/apis/${apiVersion}/validatingadmissionpolicybindings`, {
    apiVersion,
    kind: `${kind}Binding`,
    metadata,
    spec: { policyName: metadata.name, validationActions: ["Deny"] },
  });
  const code = reason === "Forbidden" ? 403 : 422;
  await eventually("the policy in force", 30_000, async () => {
    try {
      await api.delete(`/api/v1/namespaces/${namespace}/pods/${pod}?dryRun=All`);
      return undefined;
    } catch (error) {
      return error instanceof ApiError && error.status === code ? true : undefined;
    }
  });
}
