/** What one check of `kubectl sluice check` found. */
import { messageOf } from "../../functions/shared/base/error-message.ts";
import { ClusterError, isRightMissing } from "../../functions/shared/kubernetes/cluster.ts";

export interface PartCheck {
  readonly check: string;
  /** `unknown`: a right is missing, or there is nothing by which to tell. */
  readonly outcome: "ok" | "wrong" | "unknown";
  readonly message: string;
  /** The command that mends it; null where nothing is wrong. */
  readonly todo: string | null;
}

/** The result of a check without its name. */
export type Finding = Omit<PartCheck, "check">;

export function ok(message: string): Finding {
  return { outcome: "ok", message, todo: null };
}

export function wrong(message: string, todo: string): Finding {
  return { outcome: "wrong", message, todo };
}

export function unknown(message: string): Finding {
  return { outcome: "unknown", message, todo: null };
}

/** What the API server's refusal to answer a check means for it. Throws what is not the API server's. */
export function unreadable(error: unknown): Finding {
  if (!(error instanceof ClusterError)) throw error;
  const [message = ""] = messageOf(error).split("\n");
  return unknown(isRightMissing(error) ? `a right is missing: ${message}` : message);
}
