/** Bodies and answers that arrive in pieces of a byte, at a process of its own, whose memory the test measures from outside. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import manifest from "../../package.json" with { type: "json" };
import { eventually } from "../controlplane/api.ts";
import { type Launched, launch } from "../controlplane/processes.ts";
import { readImage } from "../support/dockerfile.ts";
import { parseScript } from "../support/start-script.ts";

const mebibyte = 2 ** 20;
const [bodies, calls] = [64, 32];
const [largestBody, largestAnswer] = [5 * mebibyte, mebibyte];
const limitBytes = 256 * mebibyte;
const program = join(import.meta.dirname, "pieces-process.ts");
const head =
  "POST /admission/zpdb-validation HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";

const atOnce = 10_000;
const pieces = Buffer.from("1\r\n \r\n".repeat(atOnce));
const bytesOnWire = pieces.length / atOnce;
/** Size of a first piece before them, because Node takes two microseconds for each piece, and there would be 350 million. */
const firstOfBody = 192 * 1_024;
const lastOfBody = 3 * mebibyte;
const firstOfAnswer = 768 * 1_024;

const inOnePiece = (bytes: number) => `${bytes.toString(16)}\r\n${" ".repeat(bytes)}\r\n`;

/** Writes this many pieces of one byte, as fast as the socket takes them, and then this text. */
function pour(socket: Socket, count: number, text: string): void {
  for (let left = count; ; left -= atOnce) {
    if (socket.destroyed) return;
    if (left <= 0) return void socket.write(text);
    const isTaken = socket.write(pieces.subarray(0, bytesOnWire * Math.min(left, atOnce)));
    if (!isTaken) return void socket.once("drain", () => pour(socket, left - atOnce, text));
  }
}

/** Pods whose answer has the largest permitted size. */
async function playPods(context: TestContext): Promise<number> {
  const server = createServer((socket) => {
    context.after(() => socket.destroy());
    socket.on("error", () => {});
    socket.once("data", () => {
      socket.write(`HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${inOnePiece(firstOfAnswer)}`);
      pour(socket, largestAnswer - firstOfAnswer, "0\r\n\r\n");
    });
  });
  context.after(() => server.close());
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
}

/**
 * Starts the process as `npm start` starts the server, with the environment of the image: what glibc keeps of large buffers
 * without it differs by 80 MiB from run to run.
 */
async function start(context: TestContext, podsPort: number): Promise<Launched> {
  const options = parseScript(manifest.scripts.start).words.filter((word) => word.startsWith("--"));
  const env = { ...process.env, ...(await readImage()).environment };
  const started = launch(process.execPath, [...options, program, `${podsPort}`, `${calls}`], { output: "pipe", env });
  context.after(() => started.stop(0));
  return started;
}

/** Sends one body, and notes the status of its answer. */
function post(context: TestContext, port: number, statuses: string[]): Socket {
  const socket = connect(port, "127.0.0.1");
  context.after(() => socket.destroy());
  socket.on("error", () => {});
  socket.once("data", (data) => statuses.push(String(data).slice(9, 12)));
  socket.once("connect", () => {
    socket.write(`${head}${inOnePiece(firstOfBody)}`);
    pour(socket, largestBody - firstOfBody - lastOfBody, `${inOnePiece(lastOfBody)}0\r\n\r\n`);
  });
  return socket;
}

/** An ended process has no memory. */
async function mostResident({ pid }: Launched): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "utf8").catch(() => "");
  return 1_024 * Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0);
}

const unmeasured = process.platform === "linux" ? false : "its memory is told by Linux";

test("64 bodies and 32 answers of the largest size in pieces of a byte leave the process alive under 256 MiB", {
  skip: unmeasured,
  timeout: 240_000,
}, async (context) => {
  const started = await start(context, await playPods(context));
  const lines = () => started.printed().stdout.split("\n");
  const port = await eventually("its port", 30_000, async () => Number(lines()[0]) || undefined);
  const statuses: string[] = [];
  const sockets = Array.from({ length: bodies }, () => post(context, port, statuses));
  let mostBytes = 0;
  const meanwhile = async (what: string, isSo: () => boolean): Promise<void> => {
    const ended = await eventually(what, 150_000, async () => {
      mostBytes = Math.max(mostBytes, await mostResident(started));
      return started.end()?.summary ?? (mostBytes > limitBytes ? "too large" : isSo() ? "so" : undefined);
    });
    assert.equal(ended, "so", `${Math.round(mostBytes / mebibyte)} MiB; ${started.printed().stderr.slice(-500)}`);
  };
  await meanwhile("bodies refused", () => statuses.includes("503"));
  // Only one is left, because reading millions of pieces of the others would take minutes.
  const [alone, ...others] = sockets.filter((socket) => socket.bytesRead === 0);
  for (const socket of others) socket.destroy();
  await meanwhile("an answer to the last body", () => (alone?.bytesRead ?? 0) > 0);
  await meanwhile("the answers of pods", () => lines().length > 2);
  assert.deepEqual(JSON.parse(lines()[1] ?? ""), Array(calls).fill(`${largestAnswer} bytes`));
  context.diagnostic(`at most ${Math.round(mostBytes / mebibyte)} MiB resident`);
});
