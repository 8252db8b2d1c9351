/** The answers to a review. Every refusal is made here, so that each of them has the code and the reason of its kind. */
import type { AdmissionAnswer, Allowed, Denied } from "./definition.ts";

/** What an answer is about: the StatefulSet of the pod, and the field of the object that is to be changed. */
type About = Partial<Pick<Denied, "zone" | "field">>;

/** The object goes through. `guard` is `allowed`, or says why nothing was to be judged. */
export function allow(guard: string, rest: Omit<Partial<Allowed>, "allowed" | "guard"> = {}): Allowed {
  return { allowed: true, guard, warnings: [], ...rest };
}

/**
 * A refusal that means "not now": what kubectl and node upgrades wait for, as they do for a PodDisruptionBudget.
 */
export function askAgain(guard: string, sentence: string, zone = ""): Denied {
  const status = { code: 429, reason: "TooManyRequests", cause: "DisruptionBudget", field: "" };
  return { allowed: false, guard, sentence, zone, ...status };
}

/** The same, where time alone may cure it within seconds: a review that may wait is held. `inMs`: it is not cured sooner. */
export function notYet(guard: string, sentence: string, zone = "", inMs = 0): Denied {
  return { ...askAgain(guard, sentence, zone), curedInMs: inMs };
}

/** 400: what was asked for is wrong, and stays so until its author changes it. A field that is at fault is named as the cause. */
export function badRequest(guard: string, sentence: string, about: About = {}): Denied {
  return deny(400, "BadRequest", { guard, sentence, ...about });
}

/** 403: a budget forbids it, and a client does not ask again. */
export function forbidden(guard: string, sentence: string, about: About = {}): Denied {
  return deny(403, "Forbidden", { guard, sentence, ...about });
}

/** 404: what it is about is not there. */
export function notFound(guard: string, sentence: string): Denied {
  return deny(404, "NotFound", { guard, sentence });
}

/** 409: another object than the one that was meant is there. */
export function conflict(guard: string, sentence: string): Denied {
  return deny(409, "Conflict", { guard, sentence });
}

/** 500: it cannot be judged at all. */
export function internalError(guard: string, sentence: string): Denied {
  return deny(500, "InternalError", { guard, sentence });
}

/** The refusal of a review that has waited as long as a client would. */
export function tooLate(): Denied {
  return askAgain("late", "the answer took too long, and what it rests on is out of date: try again");
}

/** True for a refusal after which a client does not ask again: it rests on what the API server says now, and on no memory. */
export function isFinal(answer: AdmissionAnswer): boolean {
  return !answer.allowed && answer.code !== 429;
}

function deny(code: number, reason: string, because: Pick<Denied, "guard" | "sentence"> & About): Denied {
  const { field = "" } = because;
  return { allowed: false, code, reason, cause: field === "" ? "" : "FieldValueInvalid", ...because, field };
}
