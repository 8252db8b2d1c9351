/** A function that events or cron trigger, as a Knative Service with its account. */
import type { FunctionDefinition } from "../../functions/shared/contract/definition.ts";
import type { TriggeredDefinition } from "./events.ts";
import type { Manifest } from "./object.ts";
import { rightsOf, withoutWatches } from "./rights.ts";
import { knativeService } from "./workloads.ts";

/**
 * A function that decides about groups watches on demand; whatever else comes and goes lists what it reads. It gathers
 * what it is told for longer than a server does: pods become Ready further apart here, and each write of the ledger costs.
 */
export function functionOf(definition: TriggeredDefinition): readonly Manifest[] {
  const { name, needs } = definition;
  const isWatching = "keyedBy" in definition && watchesOnDemand(definition);
  const settings: Readonly<Record<string, string>> =
    "keyedBy" in definition ? (isWatching ? { VIEWS: "awake", GATHER_MS: "50" } : { VIEWS: "list" }) : {};
  return [...rightsOf({ name, needs: isWatching ? needs : withoutWatches(needs) }), knativeService(name, settings)];
}

/** True for a function whose reconciles decide about groups: it opens watches while it has work. */
export function watchesOnDemand({ keyedBy, isGlance = false }: FunctionDefinition): boolean {
  return keyedBy === "groups" && !isGlance;
}
