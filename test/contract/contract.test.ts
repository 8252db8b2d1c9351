/**
 * The same cases for the real API server and for the fake clusters, so that these cannot behave differently. If they disagree,
 * the real one is right.
 */
import { after, before, describe, test } from "node:test";
import { findAssets } from "../controlplane/controlplane.ts";
import { cases } from "./cases.ts";
import { evictionCases } from "./cases-evictions.ts";
import { rawUpdateCases } from "./cases-updates-raw.ts";
import type { Case, Fixture } from "./fixture.ts";
import { type ContractWorld, startDirectWorld, startRealWorld, startServedWorld } from "./worlds.ts";

const caseTimeoutMs = 60_000;
const slowTimeoutMs = 120_000;

const assets = await findAssets();
const inContinuousIntegration = process.env.CI === "true";
if (assets === undefined && !inContinuousIntegration) {
  console.error(
    [
      "",
      "  *** The contract is NOT tested against a real API server: its binaries are missing.",
      "  *** Build them once with `npm run controlplane` (some minutes, needs Go), or set KUBEBUILDER_ASSETS.",
      "",
    ].join("\n"),
  );
}

const startReal = async () => {
  if (assets === undefined) throw new Error("the real API server's binaries are missing, and in CI they must be there");
  return await startRealWorld(assets);
};
inWorld("real API server", startReal, [...cases, ...evictionCases, ...rawUpdateCases]);
inWorld("embedded world over HTTP", startServedWorld, [...cases, ...evictionCases, ...rawUpdateCases]);
inWorld("embedded world", startDirectWorld, cases);

function inWorld<F extends Fixture>(
  name: string,
  start: () => Promise<ContractWorld<F>>,
  required: readonly Case<F>[],
): void {
  const skip = name === "real API server" && assets === undefined && !inContinuousIntegration;
  describe(`contract: ${name}`, { skip: skip ? "no binaries of a real API server" : false }, () => {
    let world: ContractWorld<F>;
    before(async () => {
      world = await start();
    });
    after(async () => {
      await world?.close();
    });
    const register = ({ name, run, slow }: Case<F>): void => {
      test(name, { timeout: slow ? slowTimeoutMs : caseTimeoutMs }, async () => run(await world.fixture()));
    };
    const together = required.filter(({ alone }) => !alone);
    const inOrder = [...together.filter(({ slow }) => slow), ...together.filter(({ slow }) => !slow)];
    // The cases mostly wait, and each has a namespace of its own.
    describe("together", { concurrency: 8 }, () => inOrder.forEach(register));
    describe("alone", { concurrency: 1 }, () => required.filter(({ alone }) => alone).forEach(register));
  });
}
