/**
 * `npm test`: every test that can run here, the quick ones first, those on a real control plane last.
 *
 * The control plane and Knative's programs are built once, when Go is at hand, and RabbitMQ is loaded once, where there is apt.
 * Where they cannot be had, their suites are skipped and the summary says so; with CI=true that is a failure.
 */
import { globSync } from "node:fs";
import { relative } from "node:path";
import { run } from "node:test";
import { spec } from "node:test/reporters";
import { ensureAssets, findAssets } from "./controlplane/controlplane.ts";
import { findBuilt, findDataPlane } from "./knative/dataplane/assets.ts";
import { canConfine } from "./knative/dataplane/confinement.ts";
import { ensurePackages } from "./rabbitmq/packages.ts";

/** One after another; the files of a phase run side by side as far as `concurrency` goes. */
const phases = [
  { name: "unit", concurrency: 2, files: ["test/tidy.test.ts", "test/{unit,property,world,mutation}/**/*.test.ts"] },
  // Half of all the seeds are the rules': they come first, or one processor is left without work in the end.
  { name: "simulation", concurrency: 2, files: ["test/simulation/rules.test.ts", "test/simulation/**/*.test.ts"] },
  { name: "demo and bench", concurrency: 1, files: ["test/{demo,bench}/**/*.test.ts"] },
  // Of the machine's time it measures what honest requests are left: nothing runs beside it.
  { name: "attack", concurrency: 1, files: ["test/attack/**/*.test.ts"] },
  // They mostly wait: one takes half a processor. The longest come first, so that none of them is left alone in the end.
  {
    name: "control plane",
    concurrency: 2,
    files: [
      "test/{knative,rabbitmq}/**/*.test.ts",
      "test/e2e/**/*.test.ts",
      "test/{contract,controlplane,image}/**/*.test.ts",
    ],
  },
];

const root = new URL("..", import.meta.url).pathname;
const tally = { passed: 0, failed: 0, skipped: 0, real: 0 };
const failures: string[] = [];

/** True for cases that talk to a real kube-apiserver: by their file, or by the suite that they stand in. */
function isReal(file: string, suite: string): boolean {
  return (
    /^test\/(controlplane|e2e|image)\//.test(file) ||
    file === "test/contract/real-server.test.ts" ||
    /real API server/.test(suite)
  );
}

/** In the order of the patterns; each once. */
function filesOf({ files }: (typeof phases)[number]): readonly string[] {
  return [...new Set(files.flatMap((pattern) => globSync(pattern, { cwd: root }).sort()))];
}

async function runPhase(phase: (typeof phases)[number]): Promise<void> {
  const found = filesOf(phase).map((file) => `${root}${file}`);
  const concurrency = phase.name === "control plane" && !(await canRunSideBySide()) ? 1 : phase.concurrency;
  const suites = new Map<string, string>();
  const execArgv = ["--import", `${root}test/ending.ts`];
  const stream = run({ files: found, concurrency, cwd: root, execArgv });
  stream.on("test:start", ({ file, name, nesting }) => {
    if (nesting === 0 && file !== undefined) suites.set(file, name);
  });
  stream.on("test:pass", ({ file, skip, details }) => {
    if (details.type === "suite") return;
    if (skip !== undefined) tally.skipped++;
    else {
      tally.passed++;
      if (isReal(relative(root, file ?? ""), suites.get(file ?? "") ?? "")) tally.real++;
    }
  });
  stream.on("test:fail", ({ file, name, details }) => {
    if (details.type === "suite") return;
    tally.failed++;
    failures.push(`${relative(root, file ?? "")}: ${name}`);
  });
  for await (const text of stream.compose(spec)) process.stdout.write(text);
}

/** Without networks of their own, the programs of Knative that two files start want the same ports. */
async function canRunSideBySide(): Promise<boolean> {
  const dataPlane = await findBuilt();
  return dataPlane === undefined || (await canConfine(dataPlane));
}

const say = (line: string) => console.log(line);

/** Builds the control plane, and Knative's programs, when they are missing. */
async function prepareControlPlane(): Promise<void> {
  if ((await findAssets()) === undefined) {
    say("the control plane for tests is built once, which takes about five minutes …");
    await ensureAssets(say);
  }
  if ((await findBuilt()) === undefined) {
    say("Knative's programs for tests are built once, which takes about five minutes …");
    await findDataPlane(say);
  }
}

/** Does what is done once, and says what is the matter when it cannot. */
async function prepare(work: () => Promise<unknown>): Promise<void> {
  try {
    await work();
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    console.error(
      `\nNOT BUILT: ${why}\nThe suites that need it ${process.env.CI === "true" ? "will fail" : "are skipped"}.\n`,
    );
  }
}

// Each file is a process, which would strip the types of every module anew: that is most of what a quick one costs.
process.env.NODE_COMPILE_CACHE ??= `${root}node_modules/.cache/node`;
const wanted = process.argv.slice(2);
const chosen = phases.filter(({ name }) => wanted.length === 0 || wanted.some((word) => name.includes(word)));
if (chosen.length === 0) {
  console.error(`no phase is called ${wanted.join(", ")}; there are: ${phases.map(({ name }) => name).join(", ")}`);
  process.exit(2);
}
const held = new Set(phases.flatMap(filesOf));
const forgotten = globSync("test/**/*.test.ts", { cwd: root }).filter((file) => !held.has(file));
if (forgotten.length > 0) {
  console.error(`no phase of test/all.ts holds ${forgotten.join(", ")}`);
  process.exit(2);
}
if (chosen.some(({ name }) => name === "control plane")) {
  await prepare(prepareControlPlane);
  await prepare(() => ensurePackages(say));
}
const startedMs = performance.now();
for (const phase of chosen) {
  console.log(`\n=== ${phase.name}`);
  await runPhase(phase);
}
for (const failure of failures) console.log(`failed: ${failure}`);
console.log(
  `\n${tally.real} cases ran against the real control plane, in ${((performance.now() - startedMs) / 1000).toFixed(0)} s for everything`,
);
console.log(`${tally.passed} passed, ${tally.failed} failed, ${tally.skipped} skipped`);
process.exitCode = tally.failed > 0 || tally.passed === 0 ? 1 : 0;
