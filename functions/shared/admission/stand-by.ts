import type { Context } from "../contract/context.ts";
import { askAgain } from "./answers.ts";
import type { Denied } from "./definition.ts";

/**
 * The refusal of a review that a function would otherwise decide by a ledger, while rollout-operator runs in its namespace;
 * undefined where it does not. `messageFor` gives the message, from the cause. Never rejects.
 */
export async function refuseBesideOperator(
  { otherOperator }: Context,
  namespace: string,
  zone = "",
  messageFor = (cause: string): string => cause,
): Promise<Denied | undefined> {
  const stands = await otherOperator?.standBy(namespace);
  return stands === undefined ? undefined : askAgain(stands.guard, messageFor(stands.message), zone);
}
