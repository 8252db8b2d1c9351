/** What `kubectl sluice why` shows about a guard besides the message of its verdict. */
import * as base from "../../functions/shared/base/guards.ts";
import { guardsByFunction } from "../table.ts";

/** True where a user has asked for the wait. */
export function isChosenGuard(by: string, guard: string): boolean {
  const guards = guardsByFunction[by] ?? {};
  return Object.hasOwn(guards, guard) && guards[guard]?.isChosen === true;
}

/** How the guard of a function ends, and what to do. Both names may come from a Lease that any client has written. */
export function explainGuard(by: string, guard: string, places: base.GuardPlaces): base.GuardExplanation {
  return base.explainGuard(guardsByFunction[by], guard, places);
}
