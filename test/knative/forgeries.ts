/** Events that no source has sent, what they are answered, and what they may cost. */
import { changed, headersOf, tick } from "../support/posted.ts";

export interface Forgery {
  readonly description: string;
  /** What it is answered. */
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Requests to the API server, at most. */
  readonly asks: number;
}

const reference = "dev.knative.apiserver.ref.update";
const resource = "dev.knative.apiserver.resource.update";
/** A reconcile of a group of two StatefulSets: its ledger, the StatefulSets, the budgets, and the pods of each. */
const perReconcile = 5;
/** A sweep lists the StatefulSets and the ledgers besides. */
const aSweep = 2 + perReconcile;

function keyOf(namespace: string, name: string): Record<string, string> {
  return { "ce-kind": "StatefulSet", "ce-namespace": namespace, "ce-name": name };
}

/** Of the StatefulSet, which there is and which is in a group of two, and of others. */
export function forgeries(namespace: string, statefulSet: string): Forgery[] {
  return [
    ...aboutOthers(namespace, statefulSet),
    ...lies(namespace, statefulSet),
    ...malformed(namespace, statefulSet),
  ];
}

function aboutOthers(namespace: string, name: string): Forgery[] {
  const key = keyOf(namespace, name);
  const costs = (asks: number, description: string, headers: Forgery["headers"]) => ({
    description,
    status: 204,
    headers,
    asks,
  });
  return [
    costs(0, "a kind that is no concern of ours", headersOf(reference, { ...key, "ce-kind": "Secret" })),
    costs(0, "a kind that there is none of", headersOf(reference, { ...key, "ce-kind": "Unheard" })),
    costs(0, "an unknown type", headersOf("com.example.delete-everything", key)),
    costs(0, "another namespace", changed("StatefulSet", "kube-system", name)),
    costs(1, "a StatefulSet that does not exist", changed("StatefulSet", namespace, "nothing")),
    costs(1, "a pod of a StatefulSet that does not exist", changed("Pod", namespace, "never-0")),
  ];
}

/** What they say of the object is not looked at: they cost what an honest one costs. */
function lies(namespace: string, name: string): Forgery[] {
  const statefulSet = {
    kind: "StatefulSet",
    apiVersion: "apps/v1",
    metadata: { name, namespace, labels: { "rollout-group": "another" }, uid: "forged", resourceVersion: "1" },
    spec: { replicas: 0, updateStrategy: { type: "RollingUpdate" } },
    status: { updateRevision: "forged", currentRevision: "other", readyReplicas: 0 },
  };
  const going = { namespace, name: `${name}-0`, deletionTimestamp: "2020-01-01T00:00:00Z" };
  const pod = { kind: "Pod", apiVersion: "v1", metadata: going, status: { phase: "Failed" } };
  const posted = (description: string, type: string, object: object) => {
    return { description, status: 204, headers: headersOf(type), body: JSON.stringify(object), asks: perReconcile };
  };
  const at = (description: string, time: string) => {
    const headers = headersOf(reference, { ...keyOf(namespace, name), "ce-time": time });
    return { description, status: 204, headers, asks: perReconcile };
  };
  const late = { ...tick, "ce-time": "2020-01-01T00:00:00Z" };
  return [
    posted("a StatefulSet as its forger wishes it to be", resource, statefulSet),
    posted("a StatefulSet that is reported to be gone", "dev.knative.apiserver.resource.delete", statefulSet),
    posted("a pod that is reported to go", resource, pod),
    at("a moment long ago", "1970-01-01T00:00:00Z"),
    at("a moment far ahead", "9999-12-31T23:59:59Z"),
    { description: "a tick that is long overdue", status: 204, headers: late, asks: aSweep },
  ];
}

function malformed(namespace: string, name: string): Forgery[] {
  const key = keyOf(namespace, name);
  const event = { specversion: "1.0", id: "1", source: "/forged", type: reference };
  const batch = { "content-type": "application/cloudevents-batch+json" };
  const structured = { "content-type": "application/cloudevents+json" };
  const refused = (description: string, status: number, headers: Forgery["headers"], body = "{}") => {
    return { description, status, headers, body, asks: 0 };
  };
  return [
    refused("a name that leads elsewhere", 400, headersOf(reference, { ...key, "ce-name": "../../secrets/x" })),
    refused("a batch", 400, batch, JSON.stringify([event])),
    refused("an event that is none", 400, structured, "[]"),
    refused("a form", 415, { "content-type": "application/x-www-form-urlencoded" }, "a=b"),
    refused("an event that is too large", 413, headersOf(resource, key), " ".repeat(2 ** 20 + 1)),
  ];
}
