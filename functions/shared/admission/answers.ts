/** Answers to a review. Every refusal is made here, so that it has the code and the reason of its kind. */
import type { AdmissionAnswer, Allowed, Denied } from "./definition.ts";

/** What a refusal is about: the StatefulSet of the pod, and the field of the object that its author must change. */
type About = Partial<Pick<Denied, "zone" | "field">>;

/** Type of the cause that names the guard in the answer to the dry run of an eviction. */
export const guardCause = "SluiceGuard";

/** An allowance. `guard` is `allowed`, or says why there was nothing to decide. */
export function allow(guard: string, rest: Omit<Partial<Allowed>, "allowed" | "guard"> = {}): Allowed {
  return { allowed: true, guard, warnings: [], ...rest };
}

/** 429: not now. kubectl and node upgrades ask again, as they do for a PodDisruptionBudget. */
export function askAgain(guard: string, message: string, zone = ""): Denied {
  const status = { code: 429, reason: "TooManyRequests", cause: "DisruptionBudget", field: "" };
  return { allowed: false, guard, message, zone, ...status };
}

/** 429 that time alone may cure within seconds, so that a review may wait. `inMs`: the least time that this takes. */
export function notYet(guard: string, message: string, zone = "", inMs = 0): Denied {
  return { ...askAgain(guard, message, zone), curedInMs: inMs };
}

/** 400: the request is wrong until its author changes it. `about.field` names the field that is at fault. */
export function badRequest(guard: string, message: string, about: About = {}): Denied {
  return deny(400, "BadRequest", { guard, message, ...about });
}

/** 403: a budget forbids it, and a client does not ask again. */
export function forbidden(guard: string, message: string, about: About = {}): Denied {
  return deny(403, "Forbidden", { guard, message, ...about });
}

/** 404: the object is not there. */
export function notFound(guard: string, message: string): Denied {
  return deny(404, "NotFound", { guard, message });
}

/** 409: another object than the requested one has its name. */
export function conflict(guard: string, message: string): Denied {
  return deny(409, "Conflict", { guard, message });
}

/** 500: there can be no decision about the request. */
export function internalError(guard: string, message: string): Denied {
  return deny(500, "InternalError", { guard, message });
}

/** The refusal of a review that has waited as long as a client would. */
export function tooLate(): Denied {
  return askAgain("late", "the answer took too long, and what it rests on is out of date: try again");
}

/** True for a refusal after which a client does not ask again. It must rest on fresh reads, and not on a cache. */
export function isFinal(answer: AdmissionAnswer): boolean {
  return !answer.allowed && answer.code !== 429;
}

function deny(code: number, reason: string, because: Pick<Denied, "guard" | "message"> & About): Denied {
  const { field = "" } = because;
  return { allowed: false, code, reason, cause: field === "" ? "" : "FieldValueInvalid", ...because, field };
}
