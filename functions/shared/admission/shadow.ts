/** The answers of shadow mode (rule R16), in one place for all functions that judge reviews. */
import type { Context } from "../contract/context.ts";
import { allow } from "./answers.ts";
import type { AdmissionAnswer, AdmissionDefinition, AdmissionHandler } from "./definition.ts";

/** Opens a function for the reviews of one process, in the mode of that process. */
export function openHandler({ open, refusesInShadow }: AdmissionDefinition, context: Context): AdmissionHandler {
  const handler = open(context);
  return refusesInShadow === true ? handler : inShadowMode(context.mode, handler);
}

/**
 * In shadow mode, a handler that allows every request unchanged, with a warning about each refusal. A review that breaks still
 * rejects, because `whenBroken` decides about it.
 */
export function inShadowMode(mode: Context["mode"], handler: AdmissionHandler): AdmissionHandler {
  if (mode === "act") return handler;
  return {
    review: async (request) => allowedInShadow(await handler.review(request)),
    stop: () => handler.stop?.(),
  };
}

function allowedInShadow(answer: AdmissionAnswer): AdmissionAnswer {
  if (answer.allowed) return { ...answer, patch: [] };
  const { guard, code, sentence, zone = "" } = answer;
  const warnings = [`in shadow mode; otherwise refused with ${code}: ${sentence}`];
  return allow(guard, { warnings, zone, otherwise: answer });
}
