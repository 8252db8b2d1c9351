/** What triggers functions on Knative: sources of events about objects, cron, and, with a broker, Triggers. */

import type { CronDefinition, FunctionDefinition, Need } from "../../functions/shared/contract/definition.ts";
import type { WatchedSource } from "../../functions/shared/contract/keys.ts";
import { apiVersionOf, type ResourceType, resources } from "../../functions/shared/kubernetes/cluster.ts";
import { dueSuffix, pingType } from "../../triggers/workqueue/sweep.ts";
import { labelsOf, type Manifest } from "./object.ts";
import { rightsOf } from "./rights.ts";

export const broker = "sluice";
/** A function that events or cron trigger. */
export type TriggeredDefinition = FunctionDefinition | CronDefinition;

/** As often as a standalone process sweeps. */
const schedule = "*/5 * * * *";

function serviceSink(name: string): object {
  return { ref: { apiVersion: "serving.knative.dev/v1", kind: "Service", name } };
}

/**
 * One ApiServerSource for each kind of object, so that each has its own selector. In Reference mode the function that gets the
 * events learns only names. The source reports no older objects and forgets what it cannot deliver. The PingSource makes up
 * for that.
 *
 * @param service the Knative Service that serves the function
 */
export function sourcesOf(definition: TriggeredDefinition, service = definition.name): readonly Manifest[] {
  const { name, watches = [] } = definition;
  const own = watches.filter((source) => broughtBy(source) === undefined);
  const sources = watches.length === 0 ? [] : watching(definition, `${name}-source`, own, service);
  return [...sources, pingSource(name, name, schedule, service), ...ownScheduleOf(definition, service)];
}

/**
 * The sources of an operator's kinds, with an account of their own. An adapter of a kind that the API server does not serve
 * ends with an error again and again, so that only users of the operator install them beside the others.
 */
export function sourcesBroughtBy(operator: string, definition: TriggeredDefinition): readonly Manifest[] {
  const theirs = (definition.watches ?? []).filter((source) => broughtBy(source) === operator);
  if (theirs.length === 0) return [];
  return watching(definition, `${definition.name}-${operator}-source`, theirs, definition.name);
}

/** The operators whose kinds trigger a function. */
export function operatorsOf({ watches = [] }: TriggeredDefinition): readonly string[] {
  return [...new Set(watches.flatMap((source) => broughtBy(source) ?? []))];
}

/** If only an operator writes the label that selects the objects, there are none without the operator. */
function broughtBy({ resource, selector }: WatchedSource): string | undefined {
  const { broughtBy: operator }: ResourceType = resources[resource];
  return operator ?? selector?.broughtBy;
}

/** `account`: the one that only watches for the function. */
function watching(
  { name }: TriggeredDefinition,
  account: string,
  watches: readonly WatchedSource[],
  service: string,
): readonly Manifest[] {
  const needs = watches.map((source) => ({ ...watchNeed(source), verbs: ["get", "list", "watch"] }));
  const sources = watches.map((source) => ({
    apiVersion: "sources.knative.dev/v1",
    kind: "ApiServerSource",
    metadata: { name: `${name}-${source.resource}`, labels: labelsOf(name) },
    spec: {
      serviceAccountName: account,
      mode: "Reference",
      resources: [watched(source)],
      ...(source.selector === undefined ? {} : { ceOverrides: { extensions: selectedBy(source.selector) } }),
      sink: serviceSink(service),
    },
  }));
  return [...rightsOf({ name: account, needs }), ...sources];
}

/**
 * An attribute of the events of a source with a selector. A broker has the events of all sources: by this attribute no function
 * is triggered by another function's selection.
 */
function selectedBy(label: NonNullable<WatchedSource["selector"]>): { readonly selectedby: string } {
  return { selectedby: label.key };
}

/** The right of a process that itself watches what triggers a function. */
export function watchNeed({ resource }: WatchedSource): Need {
  return { group: resources[resource].group, resource, verbs: ["list", "watch"] };
}

/** The API server evaluates the selector, not the adapter. */
function watched({ resource, selector: label }: WatchedSource): object {
  const { kind } = resources[resource];
  const apiVersion = apiVersionOf(resource);
  if (label === undefined) return { apiVersion, kind };
  return { apiVersion, kind, selector: { matchExpressions: [{ key: label.key, operator: "Exists" }] } };
}

/** The ticks of a function's own schedule; none without one. Throws Error for one that a clock's second hand cannot keep. */
function ownScheduleOf(definition: TriggeredDefinition, service: string): readonly Manifest[] {
  const { name } = definition;
  const own = "schedule" in definition ? definition.schedule : undefined;
  if (own === undefined) return [];
  const { everySeconds } = own;
  if (!Number.isInteger(everySeconds) || everySeconds >= 60 || 60 % everySeconds !== 0)
    throw new Error(`${name} looks every ${everySeconds} s: write a divisor of 60 that is less`);
  return [pingSource(`${name}${dueSuffix}`, name, `*/${everySeconds} * * * * *`, service)];
}

/** Its name says what a tick is for. Nothing reads the data. */
function pingSource(source: string, name: string, at: string, service: string): Manifest {
  return {
    apiVersion: "sources.knative.dev/v1",
    kind: "PingSource",
    metadata: { name: source, labels: labelsOf(name) },
    spec: { schedule: at, contentType: "application/json", data: "{}", sink: serviceSink(service) },
  };
}

/** Takes one function's events from the broker, by its own filter, because the broker may have other users. */
export function triggerOf(definition: TriggeredDefinition): Manifest {
  const { name, watches = [] } = definition;
  const isScheduled = "schedule" in definition && definition.schedule !== undefined;
  const ticks = [name, ...(isScheduled ? [`${name}${dueSuffix}`] : [])].map((source) => ({
    all: [{ exact: { type: pingType } }, { suffix: { source: `/pingsources/${source}` } }],
  }));
  const changes = watches.map(({ resource, selector: label }) => ({
    all: [
      { prefix: { type: "dev.knative.apiserver.ref." } },
      { exact: { kind: resources[resource].kind } },
      ...(label === undefined ? [] : [{ exact: selectedBy(label) }]),
    ],
  }));
  return {
    apiVersion: "eventing.knative.dev/v1",
    kind: "Trigger",
    metadata: { name, labels: labelsOf(name) },
    spec: { broker, filters: [{ any: [...ticks, ...changes] }], subscriber: serviceSink(name) },
  };
}
