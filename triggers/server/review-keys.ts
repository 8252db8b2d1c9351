/**
 * Decides whether the TLS port requires the review key. It does exactly while each stored webhook configuration that leads here
 * has had a key in its path for ten seconds, because every API server shows one then.
 */
import type { MiddlewareHandler } from "hono";
import { getPath } from "hono/utils/url";
import { webhookNamespace } from "../../functions/shared/annotations/table.ts";
import { isReviewKey, type ReviewKeys, splitPath } from "../../functions/shared/certificates/review-key.ts";
import { Deadlines, type HasDeadline } from "../../functions/shared/clock/deadlines.ts";
import { waitingTime } from "../../functions/shared/clock/process-clock.ts";
import type { Cluster, WebhookClient, WebhookConfigurationObject } from "../../functions/shared/kubernetes/cluster.ts";

/** In milliseconds: after this time every API server uses a changed configuration. */
const keyKnownAfterMs = 10_000;
/**
 * How long a request without a key waits before it is refused, in milliseconds. An API server may post under the plain path that
 * a GitOps tool has just written back, before our watch has reported it. The bounds of connections limit how many are kept.
 */
const parkedMs = 1_000;

/** The same for every path and every client. */
const refusal = "Show the key of API servers: it is in the path of the webhook configuration.";

export interface ReviewKeyOptions {
  /** A configuration whose label names this namespace leads here. */
  readonly namespace: string;
  /** The paths at which reviews are answered, without a key. */
  readonly paths: readonly string[];
  readonly clock?: Pick<Cluster, "monotonicMs" | "sleep">;
}

interface KeptRequest extends HasDeadline {
  readonly path: string;
  end(isRefused: boolean): void;
}

export class ReviewKeyCheck {
  readonly #options: ReviewKeyOptions;
  readonly #clock: Pick<Cluster, "monotonicMs" | "sleep">;
  #keys: ReviewKeys = { current: undefined, next: undefined, previous: undefined };
  /** The keys in the paths of configurations, by our path; undefined while the configurations are not known. */
  #shown: ReadonlyMap<string, readonly (string | undefined)[]> | undefined;
  /** Since when every configuration of a path has had a key, by the monotonic clock. */
  readonly #sinceMs = new Map<string, number>();
  readonly #parked = new Set<KeptRequest>();
  readonly #deadlines: Deadlines;

  constructor(options: ReviewKeyOptions) {
    this.#options = options;
    this.#clock = options.clock ?? waitingTime;
    this.#deadlines = new Deadlines(this.#clock);
  }

  /** The Secret was read. */
  know(keys: ReviewKeys): void {
    this.#keys = keys;
    this.#check();
  }

  /** All configurations that there are; undefined while a watch of them is broken. Those of others are passed over. */
  see(configurations: Iterable<WebhookConfigurationObject> | undefined): void {
    this.#shown = configurations === undefined ? undefined : keysByPath(configurations, this.#options);
    this.#check();
  }

  /** True if a request for the path must show a key. A path without a configuration requires it once any other does. */
  asks(path: string): boolean {
    const sinceMs = this.#shown?.has(path) ? this.#sinceMs.get(path) : Math.min(...this.#sinceMs.values());
    return sinceMs !== undefined && sinceMs + keyKnownAfterMs <= this.#clock.monotonicMs();
  }

  /** True while a key is required under each path that a configuration has. */
  asksEverywhere(): boolean {
    const paths = [...(this.#shown?.keys() ?? [])];
    return paths.length > 0 && paths.every((path) => this.asks(path));
  }

  /** True if a path, or the target of a request, begins with a key. */
  isShown(path = ""): boolean {
    const { key } = splitPath(path);
    return key !== undefined && isReviewKey(key, this.#keys);
  }

  /** The paths at which reviews are answered, and whether each requires a key. */
  asked(): readonly (readonly [path: string, isAsked: boolean])[] {
    return this.#options.paths.map((path) => [path, this.asks(path)]);
  }

  /** Refuses requests without a key by one constant message. Nothing of them is read but the path. */
  refuseUnkeyed(): MiddlewareHandler {
    return async (c, next) => {
      const { path } = c.req;
      const isLetIn = !this.asks(path) || this.isShown(getPath(c.req.raw)) || !(await this.#refusedAfterAll(path));
      return isLetIn ? next() : c.text(refusal, 401);
    };
  }

  /** Resolves to false as soon as the key is no longer required, and to true if it still is after {@link heldMs}. */
  #refusedAfterAll(path: string): Promise<boolean> {
    return new Promise((resolve) => {
      const parked: KeptRequest = {
        path,
        deadlineMs: this.#clock.monotonicMs() + parkedMs,
        late: () => parked.end(true),
        end: (isRefused) => {
          this.#parked.delete(parked);
          this.#deadlines.delete(parked);
          resolve(isRefused);
        },
      };
      this.#parked.add(parked);
      this.#deadlines.add(parked);
    });
  }

  #check(): void {
    const nowMs = this.#clock.monotonicMs();
    const isKeyed = (key: string | undefined) => key !== undefined && isReviewKey(key, this.#keys);
    for (const path of this.#options.paths) {
      const keys = this.#shown?.get(path);
      if (keys === undefined || !keys.every(isKeyed)) this.#sinceMs.delete(path);
      else if (!this.#sinceMs.has(path)) this.#sinceMs.set(path, nowMs);
    }
    for (const parked of this.#parked) if (!this.asks(parked.path)) parked.end(false);
  }
}

function keysByPath(
  configurations: Iterable<WebhookConfigurationObject>,
  { paths, namespace }: ReviewKeyOptions,
): Map<string, (string | undefined)[]> {
  const keys = new Map<string, (string | undefined)[]>();
  for (const { metadata, webhooks = [] } of configurations) {
    const labelled = metadata.labels?.[webhookNamespace.key];
    if (labelled !== undefined && labelled !== namespace) continue;
    for (const { clientConfig } of webhooks) {
      const { key, path } = splitPath(pathHere(clientConfig, labelled !== undefined, namespace) ?? "");
      if (!paths.includes(path)) continue;
      keys.set(path, [...(keys.get(path) ?? []), key]);
    }
  }
  return keys;
}

/**
 * The path at which a webhook may post reviews here; undefined if it posts them elsewhere. Any Service of our namespace may
 * lead here. So may any URL, because a proxy has a host of its own. With our label a Service of any namespace may.
 */
function pathHere({ service, url }: WebhookClient, isLabelled: boolean, namespace: string): string | undefined {
  if (service !== undefined) return isLabelled || service.namespace === namespace ? service.path : undefined;
  return url !== undefined && URL.canParse(url) ? new URL(url).pathname : undefined;
}
