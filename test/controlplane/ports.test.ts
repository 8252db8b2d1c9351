/** Ports are reserved across processes: of many that request one at once no two get the same. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { type TestContext, test } from "node:test";
import { freePort, isFree, releasePorts, reservePort } from "./ports.ts";

const processes = 6;
const portsEach = 200;

/** A process that requests ports on a command, prints them, and keeps them until it is killed. */
function startAsking(context: TestContext, count: number) {
  const program = `
    const { freePort } = await import(${JSON.stringify(join(import.meta.dirname, "ports.ts"))});
    process.stdin.once("data", async () => {
      const ports = await Promise.all(Array.from({ length: ${count} }, () => freePort()));
      console.log(JSON.stringify(ports));
    });
    console.log("ready");
  `;
  const child = spawn(process.execPath, ["--input-type=module", "--eval", program], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  context.after(() => child.kill("SIGKILL"));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const line = async (): Promise<string> => (await lines.next()).value ?? assert.fail("it ended");
  const ask = async (): Promise<number[]> => {
    child.stdin.write("go\n");
    return JSON.parse(await line());
  };
  const kill = async (): Promise<void> => {
    const ended = once(child, "exit");
    child.kill("SIGKILL");
    await ended;
  };
  return { ready: line, ask, kill };
}

test("many processes that request many ports at once never get the same one twice", async (context) => {
  const asking = Array.from({ length: processes }, () => startAsking(context, portsEach));
  await Promise.all(asking.map(({ ready }) => ready()));
  const ports = (await Promise.all(asking.map(({ ask }) => ask()))).flat();
  assert.equal(ports.length, processes * portsEach);
  assert.equal(new Set(ports).size, ports.length, "two processes have the same port");
});

test("a port belongs to its process until that ends, even by SIGKILL, and even if nothing listens there", async (context) => {
  const other = startAsking(context, 1);
  await other.ready();
  const [port = 0] = await other.ask();
  assert.equal(await isFree(port), true);
  assert.equal(await reservePort(port), false);
  await other.kill();
  assert.equal(await reservePort(port), true);
  releasePorts(port);
});

test("a released port may be reserved again, once, and a port with a listener may not", async () => {
  const port = await freePort();
  assert.equal(await reservePort(port), false);
  releasePorts(port);
  assert.equal(await reservePort(port), true);
  releasePorts(port, port);
  const server = createServer().listen(port, "127.0.0.1");
  await once(server, "listening");
  assert.equal(await reservePort(port), false);
  server.close();
  await once(server, "close");
  assert.equal(await reservePort(port), true);
  releasePorts(port);
});
