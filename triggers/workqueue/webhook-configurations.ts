/**
 * Watches webhook configurations. For those of our namespace the failure policies become a metric, and changes enqueue a
 * function. All of them decide whether the review key is required, because one without our labels may also lead here.
 */

import { webhookNamespace } from "../../functions/shared/annotations/table.ts";
import { reflect } from "../../functions/shared/cache/reflector.ts";
import type { Store } from "../../functions/shared/cache/watch-progress.ts";
import type { Cluster, Resource, WebhookConfigurationObject } from "../../functions/shared/kubernetes/cluster.ts";
import type { Reporting } from "../telemetry/logs-and-metrics.ts";
import { causeOf, leastBackoffMs } from "./worker.ts";

export interface WebhookConfigurationsOptions {
  readonly cluster: Cluster;
  /** Those that name it in their label are of our namespace. */
  readonly namespace: string;
  readonly reporting: Pick<Reporting, "log" | "metrics">;
  /** One of our namespace has come, has changed or has gone. */
  onChange(): void;
  /** All configurations; undefined from when a watch breaks twice in a row until it tells something again. */
  readonly onSeen?: ((configurations: readonly WebhookConfigurationObject[] | undefined) => void) | undefined;
}

const followed = {
  mutatingwebhookconfigurations: "MutatingWebhook",
  validatingwebhookconfigurations: "ValidatingWebhook",
} as const;
type Followed = keyof typeof followed;
const types = Object.keys(followed) as readonly Followed[];

interface KnownConfiguration {
  readonly resource: Followed;
  readonly object: WebhookConfigurationObject;
}

/** Lists and watches until the signal is given, whatever breaks. Resolves then, and never rejects. */
export async function followWebhookConfigurations(
  options: WebhookConfigurationsOptions,
  stopped: AbortSignal,
): Promise<void> {
  const seen = new SeenConfigurations(options);
  await Promise.all(types.map((resource) => followOne(options, resource, seen, stopped)));
}

/**
 * A watch that ends once begins again where it was, and misses nothing: a quiet one ends after 70 s. What comes again within this
 * time, in milliseconds, is a watch that cannot begin. One whose right is missing is tried again every 30 s.
 */
const againMs = 60_000;

/** The state that the watches have reported. */
class SeenConfigurations {
  readonly #options: WebhookConfigurationsOptions;
  /** The existing configurations, by uid. */
  readonly #known = new Map<string, KnownConfiguration>();
  /** The types whose watch is up to date. */
  readonly #sure = new Set<Followed>();
  /** When the watch of a type last broke, if it has reported nothing since, by the monotonic clock. */
  readonly #brokenMs = new Map<Followed, number>();

  constructor(options: WebhookConfigurationsOptions) {
    this.#options = options;
  }

  replace(resource: Followed, objects: readonly WebhookConfigurationObject[]): void {
    const gone = [...this.#known].filter(([, one]) => one.resource === resource);
    for (const [uid] of gone) this.#known.delete(uid);
    for (const object of objects) this.#known.set(object.metadata.uid, { resource, object });
    this.#goesOn(resource);
    this.#notify([...gone.map(([, { object }]) => object), ...objects]);
  }

  apply(resource: Followed, type: "ADDED" | "MODIFIED" | "DELETED", object: WebhookConfigurationObject): void {
    const { uid } = object.metadata;
    const before = this.#known.get(uid);
    if (type === "DELETED") this.#known.delete(uid);
    else this.#known.set(uid, { resource, object });
    this.#goesOn(resource);
    this.#notify(before === undefined ? [object] : [before.object, object]);
  }

  /** The watch of a type goes on. */
  noteEvent(resource: Followed): void {
    const isKnown = this.#sure.has(resource);
    this.#goesOn(resource);
    if (!isKnown) this.#notify([]);
  }

  #goesOn(resource: Followed): void {
    this.#sure.add(resource);
    this.#brokenMs.delete(resource);
  }

  breaks(resource: Followed): void {
    const nowMs = this.#options.cluster.monotonicMs();
    const before = this.#brokenMs.get(resource) ?? Number.NEGATIVE_INFINITY;
    this.#brokenMs.set(resource, nowMs);
    if (nowMs - before > againMs) return;
    this.#sure.delete(resource);
    this.#options.onSeen?.(undefined);
  }

  #notify(changed: readonly WebhookConfigurationObject[]): void {
    const { namespace, reporting, onChange, onSeen } = this.#options;
    const all = [...this.#known.values()];
    const isOurs = ({ metadata }: WebhookConfigurationObject) => metadata.labels?.[webhookNamespace.key] === namespace;
    onSeen?.(this.#sure.size === types.length ? all.map(({ object }) => object) : undefined);
    if (!changed.some(isOurs)) return;
    const ours = all.filter(({ object }) => isOurs(object));
    showPolicies(reporting, ours);
    onChange();
  }
}

async function followOne(
  { cluster, reporting }: WebhookConfigurationsOptions,
  resource: Followed,
  seen: SeenConfigurations,
  stopped: AbortSignal,
): Promise<void> {
  let lastTrouble = "";
  const store: Store<WebhookConfigurationObject> = {
    replace: (objects) => seen.replace(resource, objects),
    apply(event) {
      lastTrouble = "";
      if (event.type === "BOOKMARK") seen.noteEvent(resource);
      else seen.apply(resource, event.type, event.object);
    },
  };
  const onTrouble = (_: Resource, error: unknown) => {
    seen.breaks(resource);
    const trouble = `the watch of ${resource} broke and starts again: ${causeOf(error)}`;
    if (trouble !== lastTrouble) reporting.log("warn", trouble, { resource, reason: "watch-broke", err: error });
    lastTrouble = trouble;
  };
  const following = { resource, query: {}, store, optional: false };
  await reflect({ cluster, onTrouble, leastBackoffMs }, following, stopped, () => {});
}

/** As in rollout-operator, except that deleted entries vanish: 1 for the policy that an entry has, 0 for the other. */
function showPolicies({ metrics }: Pick<Reporting, "metrics">, known: readonly KnownConfiguration[]): void {
  metrics.webhookFailurePolicy.reset();
  for (const { resource, object } of known) {
    for (const { name, failurePolicy = "Fail" } of object.webhooks ?? []) {
      const labels = { type: followed[resource], webhook: name };
      for (const policy of ["Fail", "Ignore"]) {
        // Two configurations may have an entry of the same name: a policy is shown if one of them has it.
        if (policy === failurePolicy) metrics.webhookFailurePolicy.set({ ...labels, policy }, 1);
        else metrics.webhookFailurePolicy.inc({ ...labels, policy }, 0);
      }
    }
  }
}
