/** The reviews of evictions that an API server sends, and their answers. */

/** A pod that may be evicted. */
export interface PodName {
  readonly namespace: string;
  readonly name: string;
}

/** The answer. `uid` identifies the review. */
export interface ReviewAnswer {
  readonly uid: string;
  readonly allowed: boolean;
  /** Status code of a refusal; 0 for an allowed eviction. */
  readonly code: number;
  readonly message: string;
}

/** The Eviction that `kubectl drain` posts. */
export function evictionOf({ namespace, name }: PodName): object {
  return { apiVersion: "policy/v1", kind: "Eviction", metadata: { name, namespace } };
}

/** The body that kube-apiserver 1.36 posts to a webhook for an eviction by `kubectl drain`, with the fields in its order. */
export function reviewOf(pod: PodName, uid: string, dryRun: boolean): string {
  const kind = { group: "policy", version: "v1", kind: "Eviction" };
  const resource = { group: "", version: "v1", resource: "pods" };
  const { namespace, name } = pod;
  return JSON.stringify({
    kind: "AdmissionReview",
    apiVersion: "admission.k8s.io/v1",
    request: {
      uid,
      ...{ kind, resource, subResource: "eviction" },
      ...{ requestKind: kind, requestResource: resource, requestSubResource: "eviction" },
      ...{ name, namespace, operation: "CREATE" },
      userInfo: { username: "admin", uid: "admin", groups: ["system:masters", "system:authenticated"] },
      object: { kind: "Eviction", apiVersion: "policy/v1", metadata: { name, namespace, creationTimestamp: null } },
      oldObject: null,
      dryRun,
      options: { kind: "CreateOptions", apiVersion: "meta.k8s.io/v1", ...(dryRun ? { dryRun: ["All"] } : {}) },
    },
  });
}

/** Throws if the text is no answer to a review. */
export function parseAnswer(text: string): ReviewAnswer {
  const { response } = JSON.parse(text) as {
    response?: { uid?: unknown; allowed?: unknown; status?: { code?: number; message?: string } };
  };
  const { uid, allowed, status } = response ?? {};
  if (typeof uid !== "string" || typeof allowed !== "boolean") throw new Error(`no answer: ${text.slice(0, 200)}`);
  return { uid, allowed, code: allowed ? 0 : (status?.code ?? 0), message: allowed ? "" : (status?.message ?? "") };
}
