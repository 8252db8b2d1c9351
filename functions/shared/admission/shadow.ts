/** The answers of shadow mode (rule R16), in one place for all functions that answer reviews. */
import type { Context } from "../contract/context.ts";
import { allow } from "./answers.ts";
import type { AdmissionAnswer, AdmissionDefinition, AdmissionHandler } from "./definition.ts";

/**
 * Opens a function for the reviews of one process. In shadow mode its handler allows every request unchanged, with a warning
 * about each refusal. A review that breaks still rejects, because `whenBroken` decides about it.
 */
export function openHandler(
  { open, refusesInShadow }: Pick<AdmissionDefinition, "open" | "refusesInShadow">,
  context: Context,
): AdmissionHandler {
  const handler = open(context);
  if (context.mode === "act" || refusesInShadow === true) return handler;
  return {
    review: async (request) => allowedInShadow(await handler.review(request)),
    stop: () => handler.stop?.(),
  };
}

function allowedInShadow(answer: AdmissionAnswer): AdmissionAnswer {
  if (answer.allowed) return { ...answer, patch: [] };
  const { guard, code, message, zone = "" } = answer;
  const warnings = [`in shadow mode; otherwise refused with ${code}: ${message}`];
  return allow(guard, { warnings, zone, otherwise: answer });
}
