/** A claim of a prepared downscale ends by its own content, or after 30 minutes in which no pod can answer for it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { formatClaims, makeClaim, parseClaims } from "../../../../functions/shared/ledger/claim.ts";
import { namespace } from "../../shared/reconcile/harness.ts";
import { type Downscales, preparedGroup } from "../prepare-downscale/downscales.ts";

/** The pods of the ordinals 3 and 4 were told, and the change never came. */
async function neverCame(): Promise<Downscales> {
  const world = await preparedGroup();
  assert.equal(await world.process().guard("group-a", 3), "allowed");
  await world.harness.goOn(91_000);
  return world;
}

/** Reconciles every 20 s. Resolves to the last guard. */
async function tryFor(world: Downscales, minutes: number): Promise<string | undefined> {
  let guard: string | undefined;
  for (let tries = 0; tries < minutes * 3; tries++) {
    guard = await world.process().sweep();
    if (world.claimed.length === 0) return guard;
    await world.harness.goOn(20_000);
  }
  return guard;
}

const refusing = (status: number) => (_pod: string, method: string) => (method === "DELETE" ? { status } : undefined);
const givenUp = ({ harness }: Downscales) => harness.events.filter((event) => event.startsWith("PreparedGivenUp"));

/** The claim as an earlier version has written it. */
function withoutAddress({ harness, claims }: Downscales): void {
  const old = claims.flatMap((claim) => {
    if (!claim.isKnown) return [];
    const { toldAt: _, line: __, isKnown: ___, ...content } = claim;
    return [makeClaim(content)];
  });
  harness.writeLedger({ "sluice.dev/claims": formatClaims(old) });
}

test("a claim holds from its first write scheme, port, path, Service and uids of the pods that were told", async () => {
  const world = await preparedGroup();
  const seen: unknown[] = [];
  world.reply = (_pod, method) => {
    const [claim] = world.claims;
    if (method === "POST" && claim?.isKnown)
      seen.push([claim.phase, claim.toldAt, Object.keys(claim.uids ?? {}).sort()]);
    return undefined;
  };
  assert.equal(await world.process().guard("group-a", 4), "allowed");
  const service = world.harness.world.store.get("statefulsets", { namespace, name: "group-a" }).spec.serviceName;
  const toldAt = { scheme: "http", port: 80, path: "/ingester/prepare-shutdown", service };
  assert.deepEqual(seen, [["preparing", toldAt, ["group-a", "group-a-4"]]]);
});

test("if the annotations are gone while a claim stands, Sluice tells its pods to stay at the address where it told them to leave", async () => {
  const world = await neverCame();
  const [port, path] = ["grafana.com/prepare-downscale-http-port", "grafana.com/prepare-downscale-http-path"];
  world.annotate("group-a", { [port]: null, [path]: "elsewhere" });
  assert.equal(await world.process().sweep(), "downscale-taken-back");
  assert.deepEqual([world.claimed, world.prepared.size], [[], 0]);
  const urls = world.received
    .filter(({ method }) => method === "DELETE")
    .map(({ url }) => url.replace(/.*\.svc[^/]*/, ""));
  assert.deepEqual(urls, ["/ingester/prepare-shutdown", "/ingester/prepare-shutdown"]);
});

test("prepared-untold: for a claim of an earlier version only its StatefulSet names the address, and the claim ends after its pods are replaced", async () => {
  const world = await neverCame();
  withoutAddress(world);
  world.annotate("group-a", { "grafana.com/prepare-downscale-http-port": null });
  assert.equal(await tryFor(world, 40), "prepared-untold");
  for (const name of ["group-a-3", "group-a-4"]) world.harness.world.store.delete("pods", { namespace, name }, {});
  await world.harness.goOn(20_000);
  assert.equal(await world.process().sweep(), "prepared-given-up");
  assert.deepEqual(world.claimed, []);
});

test("prepared-given-up: if each pod says for 30 minutes that it knows no such request, its claim ends, with a Warning", async () => {
  const world = await neverCame();
  world.reply = refusing(501);
  assert.equal(await tryFor(world, 29), "prepared-untold");
  assert.deepEqual([world.claimed, givenUp(world)], [["group-a undoing"], []]);
  assert.equal(await tryFor(world, 3), "prepared-given-up");
  assert.deepEqual(world.claimed, []);
  assert.match(
    givenUp(world).join(),
    /^PreparedGivenUp group-a: prepared-given-up: .* ends after 30 minutes of failed tries/,
  );
});

test("prepared-given-up: a pod that replaced the told one has nothing to take back, whatever it answers", async () => {
  const world = await neverCame();
  world.reply = refusing(500);
  world.harness.world.store.delete("pods", { namespace, name: "group-a-3" }, {});
  await world.harness.goOn(20_000);
  assert.equal(await tryFor(world, 35), "prepared-untold", "group-a-4 was told, and stands");
  world.harness.world.store.delete("pods", { namespace, name: "group-a-4" }, {});
  await world.harness.goOn(20_000);
  assert.equal(await world.process().sweep(), "prepared-given-up");
});

test("a pod that was told, and only answers with an error of its own, holds its group as long as this lasts", async () => {
  const world = await neverCame();
  world.reply = (pod) => ({ status: pod === "group-a-3" ? 503 : 501 });
  assert.equal(await tryFor(world, 90), "prepared-untold");
  assert.deepEqual([world.claimed, givenUp(world)], [["group-a undoing"], []]);
});

test("Sluice cannot read a claim with an invalid address, and sends nothing there", () => {
  const content = {
    id: "prepared-a",
    kind: "scale-down",
    zone: "a",
    members: "3",
    by: "x",
    stampMs: 1,
    phase: "p",
    terms: "asked",
  };
  const good = { scheme: "http", port: 80, path: "/a", service: "s" };
  const parse = (toldAt: object) => parseClaims(JSON.stringify({ ...content, toldAt }), (why) => new Error(why));
  assert.equal(parse(good).length, 1);
  for (const wrong of [
    { scheme: "file" },
    { port: 0 },
    { port: "80" },
    { path: "a" },
    { path: "/a b" },
    { service: "" },
  ])
    assert.throws(() => parse({ ...good, ...wrong }), /toldAt of the claim prepared-a/, JSON.stringify(wrong));
});
