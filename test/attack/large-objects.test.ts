/** The largest annotations that an API server takes, on many objects: for how long do they block the server's event loop? */
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { eventually } from "../controlplane/api.ts";
import type { World } from "../fake-cluster/world.ts";
import { kubeconfigText } from "../support/kubeconfig.ts";
import { namespace, serveGroup } from "../support/served-group.ts";
import { Server } from "../support/server.ts";

const claimCount = 100;
const podCount = 500;
const longestTurnMs = 250;
const probe = join(import.meta.dirname, "turns-of-loop.ts");
/** Size that an API server takes for all annotations of one object, less some room for others. */
const largestAnnotation = 250_000;

/** As many and as long labels as a selector may have. The last one differs for each claim. */
const labels = (last: string) =>
  Array.from({ length: 100 }, (_, index) => [`label-${index}`, index < 99 ? `v${"x".repeat(24)}` : last] as const);

/**
 * Claims of two owners: the selectors of one have the largest permitted size, those of the other the largest that can be
 * stored.
 */
function fill({ store }: World): void {
  for (let index = 0; index < claimCount; index++) {
    const isTooLarge = index % 2 === 0;
    const selector = labels(`last-${index}`).map((pair) => pair.join("="));
    const stored = Array.from({ length: 20_000 }, (_, at) => `key-${at}=v`)
      .join()
      .slice(0, largestAnnotation);
    const annotations = {
      "sluice.dev/owner": `Cluster.example.com/${isTooLarge ? "large" : "allowed"}`,
      "sluice.dev/pod-selector": isTooLarge ? stored.slice(0, stored.lastIndexOf(",")) : selector.join(),
      "sluice.dev/suspend-duration": "1h",
      "sluice.dev/suspend": "true",
      "sluice.dev/drained-at": "2026-01-01T00:00:05Z",
    };
    const metadata = { name: `data-${index}`, annotations };
    store.create("persistentvolumeclaims", namespace, { metadata } as never);
  }
  const spec = { containers: [{ name: "db", image: "db:1" }] };
  for (let index = 0; index < podCount; index++) {
    const metadata = { name: `pod-${index}`, labels: Object.fromEntries(labels("other")) };
    store.create("pods", namespace, { metadata, spec } as never);
  }
}

async function start(context: TestContext) {
  const stage = await serveGroup({ seed: 1, pods: 2, drop: 0 });
  context.after(() => stage.close());
  const folder = await mkdtemp(join(tmpdir(), "sluice-large-"));
  context.after(() => rm(folder, { recursive: true, force: true }));
  const kubeconfig = join(folder, "kubeconfig");
  await writeFile(kubeconfig, kubeconfigText(stage.served.url, {}, namespace));
  const settings = { NODE_OPTIONS: `--import=${probe}` };
  const server = await Server.start({ kubeconfig, namespace, settings });
  context.after(() => server.kill());
  return { stage, server };
}

test("100 volume claims with the largest annotations and 500 pods: no turn of the event loop takes more than 250 ms", {
  timeout: 240_000,
}, async (context) => {
  const { stage, server } = await start(context);
  await server.ready();
  const linesBefore = server.log.length;
  fill(stage.world);
  const outcome = () =>
    stage.world.store
      .list("persistentvolumeclaims")
      .items.filter(({ metadata }) => metadata.annotations?.["sluice.dev/suspend-message"] !== undefined).length;
  const turns = () => server.log.slice(linesBefore).flatMap(({ turnMs }) => (typeof turnMs === "number" ? turnMs : []));
  const longest = () => Math.max(0, ...turns());
  await eventually("a message on each volume claim", 200_000, async () => {
    const answer = await fetch(`${server.url}/healthz`);
    await answer.text();
    return longest() > longestTurnMs || outcome() === claimCount ? true : undefined;
  });
  assert.ok(longest() <= longestTurnMs, `${longest()} ms`);
  assert.equal(outcome(), claimCount);
  context.diagnostic(`${turns().length} turns of more than 25 ms, the longest of ${longest()} ms`);
});
