/**
 * Measures how long a function that was scaled to zero takes from the start of its process to its first answer, compared with
 * a Node that does nothing. The function starts from its sources, from the bundle, and from the bundle with compiled code, as
 * in the image.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { type RequestOptions, request } from "node:http";
import { dirname, join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { admissionFunctions, cronFunctions, groupFunctions } from "../../triggers/table.ts";
import { Api } from "../controlplane/api.ts";
import { startControlPlane } from "../controlplane/controlplane.ts";
import { launch } from "../controlplane/processes.ts";
import { startScriptOf } from "../support/start-script.ts";
import { type ColdStart, coldStartTable, forms } from "./cold-start-table.ts";
import { describeMachine, introduce, loadBefore } from "./machine.ts";
import type { SharedOptions } from "./options.ts";
import { buildShipped, copySources, type Shipped } from "./shipped.ts";
import { seeded, shuffled } from "./statistics.ts";
import { usageOf } from "./usage.ts";

const repository = resolve(import.meta.dirname, "../..");
const namespace = "cold-start";
const giveUpMs = 30_000;

/** A function, and its trigger. */
interface Triggered {
  readonly name: string;
  readonly path: string;
  readonly contentType: string;
  readonly body: object;
  /** As in the manifests: functions that events trigger keep no views between two events. */
  readonly views: "list" | "watch";
}

const event = { specversion: "1.0", id: "1", source: "https://10.0.0.1:443" };
const statefulSet = { apiVersion: "apps/v1", kind: "StatefulSet", namespace, name: "none" };
const review = { uid: "1", operation: "CREATE", namespace, name: "none-0", object: {} };
const eventsJson = { path: "/", contentType: "application/cloudevents+json", views: "list" } as const;

const askedByEvent: Triggered = { ...eventsJson, name: "node", body: event };

const triggered: readonly Triggered[] = [
  ...groupFunctions.map(({ name }) => ({
    ...eventsJson,
    name,
    body: { ...event, type: "dev.knative.apiserver.ref.update", data: statefulSet },
  })),
  ...cronFunctions.map(({ name }) => ({ ...eventsJson, name, body: { ...event, type: "dev.knative.sources.ping" } })),
  ...admissionFunctions.map(({ name, paths, readsViews }) => ({
    name,
    path: paths[0] ?? "/",
    contentType: "application/json",
    body: {
      apiVersion: "admission.k8s.io/v1",
      kind: "AdmissionReview",
      request: readsViews ? { ...review, subResource: "eviction" } : review,
    },
    views: "watch" as const,
  })),
];

/**
 * The least that a function can do with Node: a server, and a request to the API server over TLS. It accepts any event. The
 * cost of everything else is compared with it.
 */
const leastServer = `
  const { createServer, get } = { ...require("http"), get: require("https").get };
  const { clusters: [{ cluster }], users: [{ user }] } = JSON.parse(require("fs").readFileSync(process.env.KUBECONFIG));
  const [ca, cert, key] = [cluster["certificate-authority-data"], user["client-certificate-data"], user["client-key-data"]]
    .map((text) => text && Buffer.from(text, "base64"));
  let status = 503;
  const ask = () => get(cluster.server + "/version", { ca, cert, key }, (answer) => answer.resume().on("end", () => { status = 200; }))
    .on("error", () => setTimeout(ask, 10));
  ask();
  const server = createServer((request, response) => {
    let text = "";
    request.on("data", (chunk) => { text += chunk; });
    request.on("end", () => {
      if (request.method === "POST") JSON.parse(text);
      response.writeHead(request.method === "POST" ? 204 : status).end();
    });
  });
  server.listen(0, () => console.log(JSON.stringify({ port: server.address().port })));`;

/** The cost of the Kubernetes library before its first call: for all of it, or for the kubeconfig code that Sluice loads. */
const residentAtTheEnd = ".then(() => console.log(process.memoryUsage.rss()))";
const wholeLibrary = `import("@kubernetes/client-node")${residentAtTheEnd}`;
const itsConfiguration = `import("./functions/shared/kubernetes/configuration.ts")
  .then(({ loadConfiguration }) => loadConfiguration(process.env.KUBECONFIG))${residentAtTheEnd}`;

/** Command lines without Node itself. */
interface Commands {
  readonly bare: readonly string[];
  readonly least: readonly string[];
  readonly library: Readonly<Record<"whole" | "configuration", readonly string[]>>;
  readonly of: Readonly<Record<(typeof forms)[number], (name: string) => readonly string[]>>;
  /** Folder of the sources. */
  readonly sources: string;
  /** Environment variables that the image sets. */
  readonly environment: Readonly<Record<string, string>>;
}

/** Builds the bundles. Resolves to the exit code. */
export async function runColdStart(options: SharedOptions, signal: AbortSignal): Promise<number> {
  const load = loadBefore();
  const shipped = await buildShipped(repository, options.nodeFlags);
  const sources = await copySources(repository);
  try {
    const commands = commandsOf(shipped, sources.directory, options.nodeFlags);
    const controlPlane = await startControlPlane({ signal, log: (line) => console.error(line) });
    try {
      const machine = await describeMachine(controlPlane, load, undefined);
      console.log(`${introduce(machine)}\n`);
      await prepare(await Api.open(controlPlane, { userAgent: "sluice-test-bench" }));
      const { kubeconfig } = controlPlane;
      const starts = await measure(commands, { kubeconfig, repeat: options.repeat, seed: options.seed, signal });
      console.log(`${coldStartTable(starts).join("\n")}\n`);
      const file = options.json ?? join(repository, "bench-results", `cold-start-${Date.now()}.json`);
      await mkdir(dirname(file), { recursive: true });
      await writeFile(file, `${JSON.stringify({ machine, starts }, undefined, 2)}\n`);
      console.log(
        `Milliseconds: median (least–most), how many times the median of a bare Node, resident memory. All figures: ${file}`,
      );
      return 0;
    } finally {
      await controlPlane.stop();
    }
  } finally {
    await Promise.all([shipped.remove(), sources.remove()]);
  }
}

async function prepare(api: Api): Promise<void> {
  await api.post("/api/v1/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } });
  await api.close();
}

/**
 * The commands: a first `npm start`, without the compiled code that it keeps; and the image, without and with compiled code.
 */
function commandsOf(
  { environment, flags, server, start: program }: Shipped,
  sources: string,
  more: readonly string[],
): Commands {
  const start = startScriptOf(sources).words.slice(1);
  return {
    environment,
    sources,
    bare: ["-e", "0"],
    least: ["-e", leastServer],
    library: { whole: ["-e", wholeLibrary], configuration: ["-e", itsConfiguration] },
    of: {
      sources: () => [...start.slice(0, -1), ...more, join(sources, start.at(-1) ?? "")],
      bundle: (name) => [...flags, join(server, name, "main.cjs")],
      compiled: () => [...flags, program],
    },
  };
}

interface Course {
  readonly kubeconfig: string;
  readonly repeat: number;
  readonly seed: number;
  readonly signal: AbortSignal;
}

/** In each round every form starts once, in random order, so that other load on the machine falls on all alike. */
async function measure(
  { bare, least, library, of, sources, environment }: Commands,
  { kubeconfig, repeat, seed, signal }: Course,
): Promise<ColdStart[]> {
  const random = seeded(seed);
  const starts: ColdStart[] = [];
  const turns = [
    async () => ({ name: "node", form: "bare", ms: await startBare(bare), residentBytes: 0 }) as const,
    async () =>
      ({
        name: "node",
        form: "least",
        ...(await startFunction(least, { KUBECONFIG: kubeconfig }, askedByEvent)),
      }) as const,
    ...(["whole", "configuration"] as const).map((form) => async () => {
      return {
        name: "client-node",
        form,
        ...(await startImport(library[form], sources, { KUBECONFIG: kubeconfig })),
      } as const;
    }),
    ...triggered.flatMap((one) =>
      forms.map((form) => async () => {
        const ports = { PORT: "0", REVIEWS_ON_PORT: "true" };
        const own = { KUBECONFIG: kubeconfig, NAMESPACE: namespace, ...ports, FUNCTION: one.name, VIEWS: one.views };
        const env = { ...(form === "sources" ? {} : environment), ...own };
        return { name: one.name, form, ...(await startFunction(of[form](one.name), env, one)) } as const;
      }),
    ),
  ];
  for (let round = 0; round <= repeat; round++) {
    for (const turn of shuffled(turns, random)) {
      signal.throwIfAborted();
      const start = await turn();
      // The first round brings the files into memory, and does not count.
      if (round > 0) starts.push(start);
    }
    console.error(`round ${round} of ${repeat}`);
  }
  return starts;
}

async function startBare(args: readonly string[]): Promise<number> {
  const startedMs = performance.now();
  const child = spawn(process.execPath, args, { stdio: "ignore" });
  await once(child, "exit");
  return performance.now() - startedMs;
}

/** Measures from the start of a process to its end, when it prints its memory. */
async function startImport(
  args: readonly string[],
  cwd: string,
  env: Readonly<Record<string, string>>,
): Promise<Pick<ColdStart, "ms" | "residentBytes">> {
  const startedMs = performance.now();
  const launched = launch(process.execPath, args, {
    output: "pipe",
    cwd,
    env: { PATH: process.env.PATH, ...env },
  });
  const { code, summary } = await launched.ended;
  const residentBytes = Number(launched.printed().stdout);
  if (code !== 0 || !(residentBytes > 0))
    throw new Error(`${args.join(" ")}: ${summary}: ${launched.printed().stderr}`);
  return { ms: performance.now() - startedMs, residentBytes };
}

async function startFunction(
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  to: Triggered,
): Promise<Pick<ColdStart, "ms" | "residentBytes">> {
  const startedMs = performance.now();
  const child = spawn(process.execPath, args, {
    env: { PATH: process.env.PATH, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const exited = once(child, "close");
  let printed = "";
  const keep = (text: string) => {
    printed += text;
  };
  for (const output of [child.stdout, child.stderr]) output.setEncoding("utf8").on("data", keep);
  /** Waits for the next try, as a kubelet does. Throws if the process has ended, or takes too long. */
  const goOn = async (until: string) => {
    const end = child.signalCode ?? child.exitCode;
    if (end !== null) throw new Error(`it ended with ${end} before it ${until}`);
    if (performance.now() - startedMs > giveUpMs) throw new Error(`it took too long before it ${until}`);
    await delay(1);
  };
  try {
    // The process prints its port. The line is complete once a character follows the number.
    const portIn = () => Number(/"port":(\d+)\D/.exec(printed)?.[1]);
    while (!(portIn() > 0)) await goOn("listened");
    const port = portIn();
    // A probe comes before any event, because no process gets an event that it cannot take yet.
    while ((await send({ port, path: "/readyz", method: "GET" }).catch(() => 0)) !== 200) await goOn("was ready");
    const headers = { "content-type": to.contentType };
    const status = await send({ port, path: to.path, method: "POST", headers }, JSON.stringify(to.body));
    if (status >= 300) throw new Error(`it answered ${status}`);
    const ms = performance.now() - startedMs;
    const { residentBytes } = await usageOf(child.pid ?? 0);
    return { ms, residentBytes };
  } catch (error) {
    const cause = { cause: error };
    throw new Error(
      `${to.name}, ${args.at(-1)}: ${(error as Error).message}; it printed: ${printed.slice(-2_000)}`,
      cause,
    );
  } finally {
    child.kill("SIGKILL");
    await exited;
  }
}

/** Resolves to the status when the whole answer has come. */
function send(options: RequestOptions, body?: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const sent = request({ host: "127.0.0.1", agent: false, ...options }, (response) => {
      response.resume().once("end", () => resolve(response.statusCode ?? 0));
    });
    sent.once("error", reject);
    sent.end(body);
  });
}
