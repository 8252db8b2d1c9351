/** What a restart that is under way reads of its database, in the phases in which that decides anything. */

import type { KnownClaim } from "../../shared/ledger/claim.ts";
import type { Pod } from "../../shared/workloads/pods.ts";
import type { StatusAnswer } from "../calls.ts";
import { phases, type StepView } from "../decide-step.ts";
import { askAllocation } from "./allocation.ts";
import type { Answered, Database } from "./exchange.ts";
import { askNodes, nodeOf } from "./nodes.ts";

/** Throws ClusterError. `database`: undefined where none is named. */
export async function observeDatabase(
  database: Database | undefined,
  claim: KnownClaim,
  pod: Pod | undefined,
  answer: StatusAnswer | undefined,
): Promise<Pick<StepView, "restriction" | "membership">> {
  if (database === undefined) return {};
  const restriction = claim.phase === phases.restricting ? await hasMarker(database, claim) : undefined;
  const membership = pod && runsAnother(claim, pod, answer) ? await isMember(database, pod) : undefined;
  return { ...(restriction && { restriction }), ...(membership && { membership }) };
}

/** True if the pod runs another process than when the claim was made: only then it matters whether that is a member. */
function runsAnother({ processes = {} }: KnownClaim, { name }: Pod, answer: StatusAnswer | undefined): boolean {
  if (answer === undefined || "silence" in answer) return false;
  return answer.processId !== undefined && answer.processId !== processes[name];
}

async function hasMarker(database: Database, { id }: KnownClaim): Promise<Answered<boolean>> {
  const answered = await askAllocation(database);
  return "unknown" in answered ? answered : { value: answered.value.marker?.id === id };
}

async function isMember(database: Database, pod: Pod): Promise<Answered<boolean>> {
  const answered = await askNodes(database);
  return "unknown" in answered ? answered : { value: nodeOf(pod, answered.value) !== undefined };
}
