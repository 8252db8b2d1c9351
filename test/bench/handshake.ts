/**
 * `npx node test/bench/handshake.ts`: measures the processor time that a full TLS handshake costs the server, with RSA-4096
 * and with P-256. Both take turns in one run on one port, so that other load slows both. The clients have a thread of their
 * own.
 */
import { once } from "node:events";
import { connect } from "node:tls";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { Hono } from "hono";
import { listen } from "../../triggers/server/server.ts";
import { createAuthority, type KeyKind } from "../support/certificates.ts";
import { spreadOf } from "./statistics.ts";

const kinds: readonly KeyKind[] = ["RSA-4096", "P-256"];
const rounds = 11;
const handshakes = 100;

/** Milliseconds of this thread for one handshake, by kind of key and round. */
async function measure(): Promise<Record<KeyKind, number[]>> {
  const pairs = await Promise.all(
    kinds.map(async (kind) => [kind, await (await createAuthority(kind)).issue()] as const),
  );
  const shown = pairs.map(([kind, pair]) => [kind, { ...pair, subject: "", notAfter: "" }] as const);
  const [, pair] = shown[0] ?? [];
  const listening = await listen(new Hono(), { port: 0, requestTimeoutMs: 60_000, ...(pair && { pair }) });
  const clients = new Worker(new URL(import.meta.url), { workerData: listening.port });
  const tookMs: Record<KeyKind, number[]> = { "RSA-4096": [], "P-256": [] };
  // The first round warms up.
  for (let round = 0; round <= rounds; round++) {
    for (const [kind, one] of shown) {
      listening.present(one);
      const before = process.threadCpuUsage();
      await Promise.all([once(clients, "message"), clients.postMessage("go")]);
      const { user, system } = process.threadCpuUsage(before);
      if (round > 0) tookMs[kind].push((user + system) / 1_000 / handshakes);
    }
  }
  await clients.terminate();
  await listening.close(AbortSignal.abort());
  return tookMs;
}

async function shakeHands(port: number): Promise<void> {
  for (let count = 0; count < handshakes; count++) {
    const socket = connect({ port, host: "127.0.0.1", rejectUnauthorized: false });
    await once(socket, "secureConnect");
    socket.destroy();
  }
}

if (!isMainThread && parentPort !== null) {
  const port = parentPort;
  port.on("message", async () => {
    await shakeHands(workerData as number);
    port.postMessage("done");
  });
} else {
  const tookMs = await measure();
  const ratios = tookMs["RSA-4096"].map((rsa, round) => rsa / (tookMs["P-256"][round] ?? Number.NaN));
  const rows = [...kinds.map((kind) => [`${kind}, ms`, tookMs[kind]] as const), ["RSA-4096 / P-256", ratios] as const];
  for (const [label, values] of rows) {
    const { median, least, most } = spreadOf(values);
    console.log(`${label.padEnd(18)} ${median.toFixed(2)} (${least.toFixed(2)}-${most.toFixed(2)})`);
  }
}
