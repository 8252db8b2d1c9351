/** `POST …/pods/NAME/eviction`: a deletion that somebody may refuse. PodDisruptionBudgets are not in the world. */

import { ApiStatusError, badRequest, type StatusDetails } from "./api-errors.ts";
import type { ApiRequest } from "./http-request.ts";
import type { World } from "./world.ts";
import type { DeleteOptions } from "./write-rules.ts";

/** What an admission webhook is told of an eviction. */
export interface EvictionRequest {
  readonly namespace: string;
  readonly name: string;
  readonly userAgent: string;
  /** The Eviction as the client sent it. */
  readonly eviction: object;
}

/** What it answers. An allowance may change the deletion, as a mutating webhook does (rule R11). */
export type EvictionAnswer =
  | { readonly allowed: true; readonly deleteOptions?: DeleteOptions }
  | {
      readonly allowed: false;
      readonly code: number;
      readonly reason: string;
      readonly message: string;
      readonly details?: StatusDetails;
    };

export type ReviewEviction = (request: EvictionRequest) => Promise<EvictionAnswer> | EvictionAnswer;

/**
 * Evicts a pod: the Status of a success.
 *
 * @throws ApiStatusError 404, 409 when a precondition does not hold, and what the review refuses with.
 */
export async function answerEviction(
  world: World,
  asked: ApiRequest,
  body: Readonly<Record<string, unknown>>,
  review: ReviewEviction | undefined,
): Promise<object> {
  const { namespace = "", name = "", userAgent } = asked;
  const { metadata, deleteOptions } = body as {
    metadata?: { name?: string };
    deleteOptions?: DeleteOptions & { dryRun?: unknown };
  };
  if (metadata?.name !== undefined && metadata.name !== name) {
    throw badRequest("create", "pods", "name in URL does not match name in Eviction object");
  }
  if (deleteOptions?.dryRun !== undefined) throw badRequest("create", "pods", "the embedded world does no dry runs");
  const answer = await review?.({ namespace, name, userAgent, eviction: body });
  if (answer?.allowed === false) {
    const { code, reason, message, details } = answer;
    throw new ApiStatusError({ code, reason, message, verb: "create", resource: "pods" }, details);
  }
  world.store.delete("pods", { namespace, name }, answer?.deleteOptions ?? deleteOptions ?? {});
  return { kind: "Status", apiVersion: "v1", metadata: {}, status: "Success", code: 201 };
}
