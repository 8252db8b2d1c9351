/** What `kubectl sluice why` shows about a guard besides the message of its verdict. */
import { fillTodo, type GuardEnd, type GuardPlaces } from "../../functions/shared/base/guards.ts";
import { table } from "../table.ts";

/** Both are null for a guard that this version does not know, such as one of a later version. Such a guard needs no person. */
export interface GuardExplanation {
  readonly ends: GuardEnd | null;
  /** One request, or one command, with the names of `places`. */
  readonly todo: string | null;
}

/** How the guard of a function ends, and what to do. Both names may come from a Lease that any client has written. */
export function explainGuard(by: string, guard: string, places: GuardPlaces): GuardExplanation {
  const guards = table.find(({ name }) => name === by)?.guards ?? {};
  const found = Object.hasOwn(guards, guard) ? guards[guard] : undefined;
  return found === undefined ? { ends: null, todo: null } : { ends: found.ends, todo: fillTodo(found, places) };
}
