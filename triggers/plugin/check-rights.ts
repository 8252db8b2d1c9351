/** The rights of the user, by command, and those that Sluice has reported to lack. */
import { mapLimit } from "../../functions/shared/base/map-limit.ts";
import { eventReasons } from "../../functions/shared/events/reasons.ts";
import type { Cluster } from "../../functions/shared/kubernetes/cluster.ts";
import { type Finding, ok, wrong } from "./check-result.ts";

/** Verbs on a type, for a command. `create pods/eviction` is written `create` and `pods/eviction`. */
type Right = readonly [command: string, verbs: string, group: string, resource: string];

/** What the commands for a person on call need in the namespace of the groups. Commands about fences are not among them. */
const rights: readonly Right[] = [
  ["status", "list", "apps", "statefulsets"],
  ["status", "list", "", "pods"],
  ["status", "list", "coordination.k8s.io", "leases"],
  ["status", "list", "", "events"],
  ["status", "list", "rollout-operator.grafana.com", "zoneawarepoddisruptionbudgets"],
  ["why", "get", "apps", "statefulsets"],
  ["why", "get", "", "pods"],
  ["why", "get", "coordination.k8s.io", "leases"],
  ["why", "list", "policy", "poddisruptionbudgets"],
  ["why", "get", "", "events"],
  ["drain", "create", "", "pods/eviction"],
  ["pause", "patch", "apps", "statefulsets"],
  ["restart", "patch", "", "pods"],
  ["release", "patch", "coordination.k8s.io", "leases"],
  ["release", "edit", "sluice.dev", "ledgers"],
  ["status", "list", "", "persistentvolumeclaims"],
  ["recover", "patch", "", "persistentvolumeclaims"],
  ["page", "create", "", "pods/portforward"],
];

/** Requests about rights that are under way at once. */
const mostQuestions = 8;
/** Of more Events than this in a namespace none is read. */
const mostEvents = 20_000;

const reviewsPath = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/** Any account may ask what it may itself. Throws ClusterError. */
export async function checkOwnRights(cluster: Cluster, namespace: string): Promise<Finding> {
  const answers = await mapLimit(rights, mostQuestions, async ([command, verb, group, path]) => {
    const [resource, subresource = ""] = path.split("/");
    const resourceAttributes = { namespace, verb, group, resource, subresource };
    const body = {
      apiVersion: "authorization.k8s.io/v1",
      kind: "SelfSubjectAccessReview",
      spec: { resourceAttributes },
    };
    const { status } = await cluster.create(reviewsPath, "", body);
    return (status as { readonly allowed?: boolean } | undefined)?.allowed === true
      ? []
      : [`${verb} ${path} (${command})`];
  });
  const missing = answers.flat();
  if (missing.length === 0) return ok(`you have the ${rights.length} rights of the commands in namespace ${namespace}`);
  const binding = "kubectl create rolebinding sluice-operators --clusterrole sluice-operator --user YOU";
  const edit = "kubectl create rolebinding sluice-editors --clusterrole edit --user YOU";
  const isOnlyLedger = missing.every((right) => right.startsWith("edit ledgers"));
  const todo = `${isOnlyLedger ? binding : edit} -n ${namespace}`;
  return wrong(`you lack in namespace ${namespace}: ${missing.join(", ")}`, todo);
}

/** By the Events that Sluice sends about each right that it lacks. Throws ClusterError. */
export async function checkRightsOfSluice(cluster: Cluster, namespace: string): Promise<Finding> {
  const { items } = await cluster.list("events", { namespace, atMost: mostEvents });
  const lacks = items.filter(({ reason }) => reason === eventReasons.forbidden);
  const messages = new Set(lacks.flatMap(({ message }) => message ?? []));
  const [first, ...others] = messages;
  if (first === undefined) return ok(`no Event in namespace ${namespace} reports that Sluice lacks one`);
  const more = others.length === 0 ? "" : ` (and ${others.length} more)`;
  return wrong(`${first}${more}`, "kubectl apply -k YOUR-OVERLAY, which has the Roles of this version");
}
