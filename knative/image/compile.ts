/**
 * `node compile.cjs SERVER`: runs every bundle of the folder once, and writes the compiled code of what ran beside it.
 *
 * It is to be run by the Node, and with the flags, that will run the server: compiled code is of no use to others.
 * The server is given an API server in which there is nothing, which gets its spans, too; an event and a review, and then
 * SIGTERM.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { type Loaded, startServer } from "./scripts.ts";

const giveUpMs = 60_000;
/** Tells a process of this program that it is the server, and where its bundles are. The server itself reads all arguments. */
const serving = "COMPILE_SERVER";

/** An API server that is ready, has no objects, and never sends an event. */
function answer({ method, url = "" }: IncomingMessage, response: ServerResponse): void {
  const { pathname, searchParams } = new URL(url, "http://localhost");
  if (pathname === "/readyz") return void response.end("ok");
  response.setHeader("content-type", "application/json");
  // New enough for every function.
  if (pathname === "/version") return void response.end('{"major":"1","minor":"1000"}');
  if (searchParams.has("watch")) return void response.flushHeaders();
  const isList = method === "GET" && /s$/.test(pathname);
  if (isList) return void response.end('{"kind":"List","metadata":{"resourceVersion":"1"},"items":[]}');
  response.statusCode = 404;
  response.end('{"kind":"Status","status":"Failure","reason":"NotFound","message":"there is nothing","code":404}');
}

/** The port on which the server listens, from its log. Rejects if it ends without one. */
async function portOf(server: ChildProcess): Promise<number> {
  if (server.stdout === null) throw new Error("its output is not to be had");
  for await (const line of createInterface(server.stdout)) {
    const port = /"port":(\d+)/.exec(line)?.[1];
    if (port !== undefined) {
      server.stdout.resume();
      return Number(port);
    }
  }
  throw new Error("it ended before it listened");
}

async function exercise(port: number): Promise<void> {
  const url = `http://127.0.0.1:${port}`;
  const deadlineMs = performance.now() + giveUpMs;
  while ((await fetch(`${url}/readyz`)).status !== 200) {
    if (performance.now() > deadlineMs) throw new Error(`it was not ready within ${giveUpMs / 1000} s`);
    await delay(20);
  }
  const type = "dev.knative.apiserver.ref.update";
  const event = { specversion: "1.0", id: "1", source: "/build", type };
  const object = { apiVersion: "apps/v1", kind: "StatefulSet", namespace: "default", name: "db" };
  const review = { uid: "1", operation: "CREATE", subResource: "eviction", namespace: "default", name: "db-0" };
  const apiVersion = "admission.k8s.io/v1";
  await post(url, "application/cloudevents+json", { ...event, kind: object.kind, name: object.name, data: object });
  await post(`${url}/pods/eviction`, "application/json", { apiVersion, kind: "AdmissionReview", request: review });
  await (await fetch(`${url}/metrics`)).text();
}

/** The answer depends on the function, and does not matter here. */
async function post(url: string, mediaType: string, body: object): Promise<void> {
  const sent = await fetch(url, { method: "POST", headers: { "content-type": mediaType }, body: JSON.stringify(body) });
  await sent.text();
}

async function run(folder: string, name: string, kubeconfig: string, apiServer: string): Promise<void> {
  const traced = { OTEL_EXPORTER_OTLP_ENDPOINT: apiServer };
  const ports = { PORT: "0", TLS_PORT: "off", REVIEWS_ON_PORT: "true" };
  const env = { ...process.env, ...traced, ...ports, FUNCTION: name, KUBECONFIG: kubeconfig, [serving]: folder };
  const args = [...process.execArgv, import.meta.filename];
  const server = spawn(process.execPath, args, { env, stdio: ["ignore", "pipe", "inherit"] });
  const exited = once(server, "exit");
  const tooLong = setTimeout(() => server.kill("SIGKILL"), 2 * giveUpMs);
  try {
    await exercise(await portOf(server));
    server.kill("SIGTERM");
    const [code] = await exited;
    if (code !== 0) throw new Error(`it ended with code ${code}`);
  } catch (error) {
    server.kill("SIGKILL");
    throw new Error(`${name}: ${(error as Error).message}`);
  } finally {
    clearTimeout(tooLong);
  }
}

/** The server itself, which writes the compiled code of all that it has loaded when it ends. */
function serveAndWrite(folder: string): void {
  const all: Loaded[] = [];
  process.on("exit", () => {
    for (const { script, compiled } of all) {
      mkdirSync(dirname(compiled), { recursive: true });
      writeFileSync(compiled, script.createCachedData());
    }
  });
  startServer(folder, (loaded) => all.push(loaded));
}

async function main(folder: string): Promise<void> {
  await rm(join(folder, "compiled"), { recursive: true, force: true });
  const api = createServer(answer).listen(0, "127.0.0.1");
  await once(api, "listening");
  const { port } = api.address() as AddressInfo;
  const scratch = await mkdtemp(join(tmpdir(), "sluice-compile-"));
  try {
    const kubeconfig = join(scratch, "kubeconfig");
    const apiServer = `http://127.0.0.1:${port}`;
    const cluster = { name: "nothing", cluster: { server: apiServer } };
    const context = { name: "nothing", context: { cluster: "nothing", user: "nothing", namespace: "default" } };
    const users = [{ name: "nothing", user: {} }];
    const config = { clusters: [cluster], users, contexts: [context], "current-context": "nothing" };
    await writeFile(kubeconfig, JSON.stringify(config));
    const entries = await readdir(folder, { withFileTypes: true });
    const names = entries.filter((entry) => entry.isDirectory() && entry.name !== "later").map(({ name }) => name);
    for (const name of names) await run(folder, name, kubeconfig, apiServer);
  } finally {
    await rm(scratch, { recursive: true, force: true });
    api.closeAllConnections();
    api.close();
  }
}

const served = process.env[serving];
const [folder] = process.argv.slice(2);
if (served !== undefined) serveAndWrite(served);
else if (folder !== undefined) void main(folder);
else throw new Error("say where the server is: compile.cjs SERVER");
