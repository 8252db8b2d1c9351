/** A StatefulSet that must not become smaller, by a policy that applies after all webhooks have allowed the change. */
import { type Api, ApiError, eventually } from "../controlplane/api.ts";

/** Makes the API server refuse each smaller size of a StatefulSet. Resolves when it does. Its dry runs tell no pod. */
export async function refuseScaling(api: Api, namespace: string, name: string): Promise<void> {
  const kind = "ValidatingAdmissionPolicy";
  const apiVersion = "admissionregistration.k8s.io/v1";
  const metadata = { name: `size-of-${namespace}-${name}` };
  const resources = ["statefulsets", "statefulsets/scale"];
  const isOther = `request.namespace != '${namespace}' || request.name != '${name}'`;
  await api.post(`/apis/${apiVersion}/validatingadmissionpolicies`, {
    apiVersion,
    kind,
    metadata,
    spec: {
      matchConstraints: {
        resourceRules: [{ apiGroups: ["apps"], apiVersions: ["v1"], operations: ["UPDATE"], resources }],
      },
      validations: [
        { expression: `${isOther} || object.spec.replicas >= oldObject.spec.replicas`, message: "it keeps its size" },
      ],
    },
  });
  await api.post(`/apis/${apiVersion}/validatingadmissionpolicybindings`, {
    apiVersion,
    kind: `${kind}Binding`,
    metadata,
    spec: { policyName: metadata.name, validationActions: ["Deny"] },
  });
  const path = `/apis/apps/v1/namespaces/${namespace}/statefulsets/${name}/scale?dryRun=All`;
  await eventually("the policy in force", 30_000, async () => {
    const refused = await api.patch(path, { spec: { replicas: 1 } }).catch((error: unknown) => error);
    return refused instanceof ApiError && refused.message.includes("it keeps its size") ? true : undefined;
  });
}
