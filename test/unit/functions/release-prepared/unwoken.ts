/** A standalone process with a prepared group, after the sweep of its start and long before the next one. */

import { isStandard } from "../../../../functions/shared/contract/definition.ts";
import { startStandalone } from "../../../../triggers/standalone.ts";
import { groupFunctions } from "../../../../triggers/table.ts";
import { createReporting } from "../../../../triggers/telemetry/logs-and-metrics.ts";
import { preparedGroup } from "../prepare-downscale/downscales.ts";

const reporting = () =>
  createReporting({ version: "1", serving: "all", level: "error", keys: () => 0, destination: { write: () => {} } });

export async function standing(views: "watch" | "list") {
  const world = await preparedGroup();
  const process = world.process();
  const standalone = startStandalone({
    cluster: process.cluster,
    pods: world.podHttp(process.cluster),
    definitions: groupFunctions.filter(isStandard),
    admissions: [],
    reporting: reporting(),
    namespaces: undefined,
    random: () => 1,
    settings: {
      mode: "act",
      views,
      watchIdleMs: 20_000,
      sweepIntervalMs: 300_000,
      gatherMs: 20,
      concurrency: 8,
      queueKeys: 10_000,
    },
  });
  // The sweep of the start is over, and the next one is far away.
  await world.harness.goOn(20_000);
  return { world, process, standalone };
}
