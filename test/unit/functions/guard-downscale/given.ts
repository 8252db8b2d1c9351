/** Reviews of sizes as an API server sends them, and the function that decides them. */
import { guardDownscale } from "../../../../functions/guard-downscale/function.ts";
import type { AdmissionAnswer, AdmissionRequest } from "../../../../functions/shared/admission/definition.ts";
import { openHandler } from "../../../../functions/shared/admission/shadow.ts";
import type { Context } from "../../../../functions/shared/contract/context.ts";
import type { Cluster } from "../../../../functions/shared/kubernetes/cluster.ts";

export const kinds = { statefulsets: "StatefulSet", deployments: "Deployment", replicasets: "ReplicaSet" } as const;
export type Resource = keyof typeof kinds;

export const protection = { "grafana.com/no-downscale": "true" };

export interface Given {
  readonly resource?: Resource;
  readonly replicas?: unknown;
  readonly labels?: object;
  readonly annotations?: object;
  readonly managedFields?: unknown;
}

export function objectOf({ resource = "statefulsets", replicas = 3, ...metadata }: Given): object {
  return {
    apiVersion: "apps/v1",
    kind: kinds[resource],
    metadata: { name: "db-a", namespace: "mimir", uid: "u", resourceVersion: "7", ...metadata },
    spec: { replicas },
  };
}

export function scaleOf(replicas: unknown): object {
  const metadata = { name: "db-a", namespace: "mimir", uid: "u", resourceVersion: "7" };
  return { apiVersion: "autoscaling/v1", kind: "Scale", metadata, spec: { replicas } };
}

/** An entry of managedFields, as the API server writes it. */
export function owner(
  manager: string,
  operation: "Apply" | "Update",
  fields: readonly string[],
  subresource?: string,
): object {
  const spec = Object.fromEntries(fields.map((field) => [`f:${field}`, {}]));
  return {
    manager,
    operation,
    apiVersion: "apps/v1",
    fieldsType: "FieldsV1",
    fieldsV1: { "f:spec": spec },
    subresource,
  };
}

export function reviewOf(
  oldObject: unknown,
  object: unknown,
  { resource = "statefulsets", ...rest }: Partial<Omit<AdmissionRequest, "resource">> & { resource?: string } = {},
): AdmissionRequest {
  return {
    uid: "1",
    operation: "UPDATE",
    resource: { group: "apps", version: "v1", resource },
    subresource: "",
    user: "admin",
    namespace: "mimir",
    name: "db-a",
    dryRun: false,
    object,
    oldObject,
    path: "/admission/no-downscale",
    deadlineMs: 9_000,
    ...rest,
  };
}

export interface ReviewOptions {
  readonly mode?: Context["mode"];
  /** The stored objects; absent: the function must not ask for any. */
  readonly get?: (resource: string, name: string) => Promise<object>;
  readonly sleep?: Cluster["sleep"];
  readonly monotonicMs?: () => number;
}

/** Decides one review as the shipped function does. */
export function decideReview(
  request: AdmissionRequest,
  { mode = "act", get, sleep = () => new Promise(() => undefined), monotonicMs = () => 0 }: ReviewOptions = {},
): Promise<AdmissionAnswer> {
  const cluster = {
    monotonicMs,
    sleep,
    get: (resource: string, { namespace, name }: { namespace: string; name: string }) =>
      get?.(resource, `${namespace}/${name}`) ?? Promise.reject(new Error("nothing is to be asked for")),
  };
  return openHandler(guardDownscale, { cluster, mode } as unknown as Context).review(request);
}
