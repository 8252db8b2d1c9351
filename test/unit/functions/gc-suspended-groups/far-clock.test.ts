/** One API server of several has a clock that is days ahead: no time is over by its word. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Cluster } from "../../../../functions/shared/kubernetes/cluster.ts";
import { wrapCluster } from "../../../../functions/shared/kubernetes/wrap-cluster.ts";
import { top, Volumes } from "../../shared/pass/volumes.ts";

const dayMs = 86_400_000;

/** Ten minutes of looks at a volume that is kept for a week, each by the clock of the API server that answers then. */
async function lookedAt(aheadAt: (look: number) => number): Promise<Volumes> {
  const on = new Volumes("7d");
  const good = on.context.cluster;
  let aheadMs = aheadAt(0);
  const cluster: Cluster = wrapCluster(good, { serverTimeMs: () => good.serverTimeMs() + aheadMs });
  on.restart({ cluster });
  await on.suspended();
  for (let look = 0; look < 60; look++) {
    aheadMs = aheadAt(look);
    await on.suspend();
    await on.collect();
    await on.goOn(10_000);
  }
  return on;
}

const histories: Readonly<Record<string, (look: number) => number>> = {
  "answers in between, 8 days ahead": (look) => (look % 3 === 1 ? 8 * dayMs : 0),
  "answers from some moment on, 8 days ahead": (look) => (look > 30 ? 8 * dayMs : 0),
};

for (const [what, aheadAt] of Object.entries(histories))
  test(`a volume that is kept for a week stays where an API server ${what}`, async () => {
    const on = await lookedAt(aheadAt);
    const claim = on.claim(top);
    assert.ok(claim !== undefined && claim.metadata.deletionTimestamp === undefined);
    assert.notEqual(on.said(top, "suspend-state"), "Removing");
  });
