import assert from "node:assert/strict";
import { test } from "node:test";
import { connect } from "node:tls";
import { dataOf } from "../../../../functions/shared/certificates/secret.ts";
import type { CronDefinition, CronOutcome } from "../../../../functions/shared/contract/definition.ts";
import { type Cluster, ClusterError } from "../../../../functions/shared/kubernetes/cluster.ts";
import {
  awaitCertificate,
  type CertificateSource,
  certificateInSecret,
  type KeyPair,
  UnusableSecretError,
} from "../../../../triggers/server/certificate-source.ts";
import { openTlsPort } from "../../../../triggers/server/tls-port.ts";
import { startCron } from "../../../../triggers/workqueue/cron.ts";
import { createTestApp } from "../../../support/app.ts";
import { CertificateWorld, generationOf, settings } from "../../../support/certificate-world.ts";
import { createVirtualClock } from "../../shared/kubernetes/virtual-clock.ts";

function sourceIn({ store, timeline }: CertificateWorld, lifetimeMs = settings.lifetimeMs): CertificateSource {
  const cluster = {
    get: async () => store.get("secrets", settings.secret),
    serverTimeMs: () => timeline.nowMs(),
  };
  return certificateInSecret(cluster as unknown as Cluster, settings.secret, lifetimeMs);
}

function replaceData(world: CertificateWorld, data: object): void {
  world.store.patch("secrets", settings.secret, { data });
}

test("the pair that the Secret marks as presented is used; anything wrong with the Secret is reported in a message", async () => {
  const world = new CertificateWorld();
  const source = sourceIn(world);
  await assert.rejects(source.read(), {
    message: "there is no Secret mimir/certificate yet: the manifests have it empty, and rotate-certificate fills it",
  });
  world.addSecret({});
  await assert.rejects(source.read(), { message: "Secret mimir/certificate is empty: rotate-certificate fills it" });
  const generation = await generationOf(world.timeline.nowMs());
  const next = await generationOf(world.timeline.nowMs());
  replaceData(world, { ...dataOf("presented", generation), ...dataOf("next", next) });
  assert.deepEqual(await source.read(), {
    cert: generation.cert,
    key: generation.key,
    subject: "DNS:rollout-operator.mimir.svc",
    notAfter: "2026-11-21T12:01:00.000Z",
    reviewKeys: { current: undefined, next: undefined, previous: undefined },
  });
  world.advanceSeconds(60);
  await assert.rejects(source.read(), /certificate in Secret mimir\/certificate expired at 2026-11-21T12:01:00\.000Z/);
  replaceData(world, { cert: "eA==" });
  await assert.rejects(source.read(), (error: Error) => {
    assert.ok(error instanceof UnusableSecretError);
    return /^Secret mimir\/certificate: its data key cert .+; empty it, and it is filled again: kubectl/.test(
      error.message,
    );
  });
});

test("the Secret is read twenty times between a renewal and the old certificate's expiry, every 1 to 10 s", () => {
  const world = new CertificateWorld();
  const everyMs = [60_000, 300_000, 365 * 24 * 3_600_000].map((lifetimeMs) => sourceIn(world, lifetimeMs).everyMs);
  assert.deepEqual(everyMs, [1_000, 5_000, 10_000]);
});

test("the server waits for the first certificate, reports each reason once, and fails if waiting cannot help", async () => {
  const world = new CertificateWorld();
  const generation = await generationOf(world.timeline.nowMs());
  const troubles: string[] = [];
  const steps = [() => {}, () => world.addSecret({}), () => replaceData(world, dataOf("presented", generation))];
  const waiting = {
    sleep: async () => steps.shift()?.(),
    onTrouble: (expected: string) => void troubles.push(expected),
  };
  const pair = await awaitCertificate(sourceIn(world), waiting, new AbortController().signal);
  assert.equal(pair?.cert, generation.cert);
  assert.deepEqual(
    troubles.map((expected) => expected.split(":")[0]),
    ["there is no Secret mimir/certificate yet", "Secret mimir/certificate is empty"],
  );
  replaceData(world, { key: "eA==" });
  await assert.rejects(awaitCertificate(sourceIn(world), waiting, new AbortController().signal), UnusableSecretError);
  assert.equal(await awaitCertificate(sourceIn(world), waiting, AbortSignal.abort()), undefined);
});

function shown(port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: "127.0.0.1", rejectUnauthorized: false }, () => {
      resolve(socket.getPeerX509Certificate()?.toString() ?? "");
      socket.destroy();
    });
    socket.once("error", reject);
  });
}

test("the TLS port opens once there is a certificate, logs that, and presents the next one to new connections", async (context) => {
  const { app, reporting, lines } = createTestApp();
  const nowMs = Date.now();
  const [first, second] = [await generationOf(nowMs), await generationOf(nowMs)];
  const pairOf = ({ cert, key }: { cert: string; key: string }): KeyPair => {
    return { cert, key, subject: "DNS:a", notAfter: "2030-01-01T00:00:00.000Z" };
  };
  let pair: KeyPair | undefined;
  let poll = Promise.withResolvers<void>();
  const clock = { monotonicMs: () => 0, sleep: () => poll.promise };
  const read = async (): Promise<KeyPair> => {
    if (pair === undefined) throw new Error("not yet");
    return pair;
  };
  const source = { kind: "secret", everyMs: 1_000, read };
  const stopping = new AbortController();
  const server = openTlsPort({ app, port: 0, requestTimeoutMs: 1_000, source, clock, reporting }, stopping.signal);
  assert.equal(server.notReady(), "there is no certificate to present yet");
  const readAgain = async (): Promise<void> => {
    // Lets the source run until it sleeps again.
    await new Promise(setImmediate);
    const before = poll;
    poll = Promise.withResolvers();
    before.resolve();
    await new Promise(setImmediate);
  };
  pair = pairOf(first);
  await readAgain();
  await server.opened;
  context.after(() => {
    stopping.abort();
    poll.resolve();
    return server.close(AbortSignal.abort());
  });
  assert.equal(server.notReady(), undefined);
  const port = Number(lines.find(({ tlsPort }) => tlsPort !== undefined)?.tlsPort);
  assert.equal(await shown(port), first.cert);
  pair = pairOf(second);
  await readAgain();
  assert.equal(await shown(port), second.cert);
  assert.match(
    await reporting.metrics.registry.metrics(),
    /_not_after_timestamp_seconds\{source="secret"\} 1893456000/,
  );
});

/** A cron function whose runs the test defines, in virtual time. */
function startTestCron(run: () => Promise<CronOutcome>) {
  const clock = createVirtualClock();
  const { reporting, lines } = createTestApp();
  const rest = { concern: "", guards: {}, needs: [], reads: [], writes: [] };
  const definition: CronDefinition = { name: "rotate-certificate", ...rest, open: () => run };
  const cron = startCron({
    cluster: clock as unknown as Cluster,
    definitions: [definition],
    certificate: settings,
    mode: "act",
    reporting,
    atLeastEveryMs: 300_000,
  });
  return { clock, cron, lines };
}

test("a cron function runs at the start, when it is triggered, when it asked for it, and at least every five minutes", async () => {
  const runs: number[] = [];
  const requeues = [10_000, 3_600_000, 3_600_000];
  const { clock, cron, lines } = startTestCron(async () => {
    runs.push(clock.monotonicMs());
    return { guard: "done", message: "all is well", requeueAfterMs: requeues.shift() ?? 3_600_000 };
  });
  await clock.goTo(1_000);
  await clock.goTo(20_000);
  cron.enqueue();
  cron.enqueue();
  await clock.goTo(400_000);
  assert.deepEqual(runs, [200, 10_400, 20_200, 320_400]);
  assert.equal(lines.filter(({ msg }) => msg === "all is well").length, 1, "an unchanged message is logged once");
  assert.equal(await cron.stop(clock.monotonicMs() + 1_000), true);
  assert.equal(cron.enqueue(), false);
});

test("a run that fails is tried again, and a missing right is named and waited for", async () => {
  const runs: number[] = [];
  const message = 'secrets is forbidden: User "x" cannot get resource "secrets" in API group ""';
  const { clock, lines } = startTestCron(async () => {
    runs.push(clock.monotonicMs());
    if (runs.length > 1) return { guard: "done", message: "all is well", requeueAfterMs: 300_000 };
    throw new ClusterError({ code: 403, reason: "Forbidden", message, verb: "get", resource: "secrets" });
  });
  await clock.goTo(60_000);
  assert.deepEqual(runs, [200, 30_200]);
  const [warning] = lines.filter(({ level }) => level === "warn");
  assert.match(String(warning?.msg), /^Sluice lacks the right to get secrets: .+; tried again in 30000 ms$/);
});
