/** The cron door: a tick starts a sweep, which finds the functions' work by listing (DESIGN section 2). */
import type { GroupKey } from "../functions/shared/statefulsets.ts";
import type { Views } from "../functions/shared/views.ts";
import type { Served } from "./passes.ts";
import type { Reporting } from "./reporting.ts";

/** The type of a PingSource's CloudEvents. Their data is whatever the user wrote, and is not looked at. */
export const pingType = "dev.knative.sources.ping";

export interface SweepOptions {
  readonly views: Views;
  readonly served: readonly Served[];
  readonly reporting: Reporting;
  /** Wakes every function for a group; false where it could not be queued. */
  wake(key: GroupKey): boolean;
}

/**
 * Lists all groups, lets each function do what its sweep does besides, and wakes every group. What one function's sweep
 * could not do is left to the next one. Throws ClusterError when the groups cannot be listed, Error when the queue is full.
 */
export async function sweep({ views, served, reporting, wake }: SweepOptions): Promise<void> {
  const groups = await views.groups();
  reporting.keepOnly(groups);
  for (const { definition, context } of served) {
    try {
      await definition.sweep?.(context, groups);
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      const sentence = `a sweep is left to the next one: ${message}`;
      reporting.log("warn", sentence, { function: definition.name, reason: "sweep-failed", err: error });
    }
  }
  const refused = groups.filter((key) => !wake(key)).length;
  if (refused > 0) throw new Error(`the queue is full: ${refused} of ${groups.length} groups could not be woken`);
  reporting.log("debug", `swept ${groups.length} groups`);
}
