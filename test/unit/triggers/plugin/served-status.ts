/** The status as a server decides it, by its watches. */
import { createWatchCache } from "../../../../functions/shared/cache/watching.ts";
import type { StatusContext } from "../../../../functions/shared/contract/definition.ts";
import type { Status } from "../../../../functions/shared/contract/status.ts";
import { showStatus } from "../../../../functions/show-status/function.ts";
import { table } from "../../../../triggers/table.ts";
import { type Harness, key, namespace, played } from "../../shared/reconcile/harness.ts";

export async function readServed(
  harness: Harness,
  more: Pick<StatusContext, "certificate"> = {},
): Promise<Status | undefined> {
  const cache = createWatchCache({
    cluster: harness.cluster,
    namespaces: [namespace],
    disruptionBudgets: false,
    onChange() {},
    onTrouble() {},
  });
  await played(harness.timeline, cache.ready);
  const read = showStatus.open({
    cluster: harness.cluster,
    cache,
    groups: () => [key],
    suspendsVolumes: true,
    guards: Object.fromEntries(table.map(({ name, guards }) => [name, guards])),
    answeredBy: { replica: "sluice-0", version: "1.2.3", mode: "act", namespaces: [namespace] },
    ...more,
  });
  const status = await played(harness.timeline, read());
  await played(harness.timeline, cache.stop());
  return status;
}
