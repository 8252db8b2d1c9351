/** The workflow of a release: no test can run it, and actionlint reads it. */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { load } from "js-yaml";
import { agentImageOf } from "../../knative/release/contents.ts";
import { ensureActionlint } from "../controlplane/assets.ts";
import { runProgram } from "../support/plugin.ts";

const root = join(import.meta.dirname, "../..");
const workflow = join(root, ".github/workflows/release.yml");

interface Step {
  readonly uses?: string;
  readonly run?: string;
  readonly with?: Readonly<Record<string, unknown>>;
}

interface Job {
  readonly needs?: string;
  readonly steps: readonly Step[];
}

interface Workflow {
  readonly on: object;
  readonly jobs: Readonly<Record<string, Job>>;
}

/** Undefined if actionlint cannot be built. In CI this is a failure. */
async function findActionlint(): Promise<string | undefined> {
  try {
    return await ensureActionlint(console.error);
  } catch (error) {
    if (process.env.CI === "true") throw error;
    console.error(`\nSKIPPED: what needs actionlint. ${(error as Error).message}\n`);
    return undefined;
  }
}

const actionlint = await findActionlint();

test("actionlint finds no fault in the workflow, and finds a job and an expression that do not exist", {
  skip: actionlint === undefined,
}, async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "sluice-workflow-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const text = await readFile(workflow, "utf8");
  // Some machines lack shellcheck and pyflakes.
  const check = async (name: string, content: string) => {
    const file = join(folder, name);
    await writeFile(file, content);
    return runProgram(actionlint ?? "", ["-no-color", "-shellcheck=", "-pyflakes=", file], process.env);
  };
  assert.deepEqual(await check("release.yml", text), { code: 0, stdout: "", stderr: "" });
  const wrongs = { "needs: check": "needs: nothing", "steps.names.outputs.image }}": "steps.none.outputs.image }}" };
  for (const [right, wrong] of Object.entries(wrongs)) {
    const { code, stdout } = await check("wrong.yml", text.replace(right, wrong));
    assert.equal(code, 1, wrong);
    assert.match(stdout, /wrong\.yml:\d+:\d+: /);
  }
});

test("only a tag starts the workflow, which runs every test before it publishes, and each image has SBOM and provenance", async () => {
  const { on, jobs } = load(await readFile(workflow, "utf8")) as Workflow;
  assert.deepEqual(on, { push: { tags: ["v*"] } });
  const { check, publish } = jobs;
  assert.deepEqual([check?.needs, publish?.needs], [undefined, "check"]);
  const commandsOf = (job: Job | undefined) => (job?.steps ?? []).map(({ run = "" }) => run);
  assert.ok(commandsOf(check).includes(".ci/run"));
  assert.ok(commandsOf(publish).some((run) => run.startsWith("npm run release -- ")));
  const pushes = (publish?.steps ?? []).filter(({ uses = "" }) => uses.startsWith("docker/build-push-action@"));
  const [image, version] = ["image", "version"].map((name) => `\${{ steps.names.outputs.${name} }}`);
  const usual = { context: ".", platforms: "linux/amd64,linux/arm64", push: true, provenance: "mode=max", sbom: true };
  assert.deepEqual(
    pushes.map(({ with: inputs }) => inputs),
    [
      { ...usual, tags: `${image}:${version}` },
      { ...usual, target: "agent", tags: `${agentImageOf(image ?? "")}:${version}` },
      { ...usual, target: "process-manager", tags: `${image}-process-manager:${version}` },
    ],
  );
  assert.ok(commandsOf(publish).some((run) => /^helm push .+\.tgz"/m.test(run)));
});
