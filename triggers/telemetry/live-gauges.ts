/** Gauges that are read again for each scrape, and how often a scrape reads the cluster. */
import { Gauge, type Registry } from "prom-client";
import { escapeTexts } from "../../functions/shared/base/escape-control.ts";
import type { ReadLimits } from "../../functions/shared/base/limit-reads.ts";

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

/** One LIST serves the scrapes of ten seconds. While the API server is away, each gets the last values after two seconds. */
export const scrapeLimits: ReadLimits = { everyMs: 10_000, waitMs: 2_000 };
