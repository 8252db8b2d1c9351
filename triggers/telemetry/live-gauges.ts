/** Gauges that are read again for each scrape, and how often a scrape reads the cluster. */
import { Gauge, type Registry } from "prom-client";
import { escapeTexts } from "../../functions/shared/base/escape-control.ts";
import type { Clock } from "../../functions/shared/clock/clock.ts";

export interface Series<Label extends string> {
  readonly labels: Readonly<Record<Label, string>>;
  readonly value: number;
}

/** Returns a function that defines a gauge. `read` gives its series for each scrape; undefined keeps the previous ones. */
export function liveGauges(registers: Registry[]) {
  return <Label extends string>(
    name: string,
    help: string,
    labelNames: readonly Label[],
    read: () => Iterable<Series<Label>> | Promise<Iterable<Series<Label>> | undefined>,
  ) =>
    new Gauge<Label>({
      name,
      help,
      labelNames,
      registers,
      async collect() {
        const all = await read();
        if (all === undefined) return;
        // A series that `read` no longer gives vanishes here.
        this.reset();
        // Pages and alerts show labels as they are.
        for (const { labels, value } of all) this.set(escapeTexts(labels), value);
      },
    });
}

/** Time for which one LIST serves all scrapes, in milliseconds: a flood of scrapes is no flood of LISTs. */
export const refreshAfterMs = 10_000;
/** No scrape waits longer for the cluster than this: while the API server is away, it gets the last values. */
export const refreshWithinMs = 2_000;

/**
 * Returns a function that calls `look` at most once in {@link refreshAfterMs}. It resolves when the last call has ended, and at
 * the latest after {@link refreshWithinMs}. `look` must not reject.
 */
export function limitReads(clock: Clock, read: () => Promise<unknown>): () => Promise<void> {
  let askedMs = Number.NEGATIVE_INFINITY;
  let reading: Promise<unknown> | undefined;
  return async () => {
    if (reading === undefined && clock.monotonicMs() - askedMs >= refreshAfterMs) {
      askedMs = clock.monotonicMs();
      reading = read().finally(() => {
        reading = undefined;
      });
    }
    if (reading === undefined) return;
    const over = new AbortController();
    await Promise.race([reading, clock.sleep(refreshWithinMs, over.signal)]);
    over.abort("looked");
  };
}
