/** What the Dockerfile promises without a build. `image.test.ts` has the built images. */
import assert from "node:assert/strict";
import { globSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { readDockerfile, type Stage } from "../support/dockerfile.ts";

const project = join(import.meta.dirname, "../..");
const text = await readFile(join(project, "Dockerfile"), "utf8");
const stages = readDockerfile(text);
const image = stages.at(-1) ?? assert.fail("there is no stage");
const agent = stages.find(({ name }) => name === "agent") ?? assert.fail("there is no target for the agent");
const manager = stages.find(({ name }) => name === "process-manager") ?? assert.fail("there is no process manager");

function usersOf({ steps }: Stage): readonly string[] {
  return steps.flatMap((step) => (step.kind === "user" ? [step.user] : []));
}

/** The flags for Node of each command that it runs. */
function flagsOf({ steps }: Stage): readonly (readonly string[])[] {
  const commands = steps.flatMap((step) => (step.kind === "entrypoint" || step.kind === "run" ? [step.command] : []));
  const ofNode = commands.filter(([program]) => program === "/nodejs/bin/node");
  return ofNode.map((command) => command.filter((word) => word.startsWith("--")));
}

test("the image's code is compiled with the flags for V8 that it runs with", () => {
  const [compiling, running, ...more] = stages.filter((stage) => stage !== agent && stage !== manager).flatMap(flagsOf);
  assert.deepEqual(more, []);
  assert.deepEqual(compiling, running);
});

test("the base images can be pinned to digests, as the README says, and no package runs a script during the build", async () => {
  const readme = await readFile(join(project, "README.md"), "utf8");
  const given = [...readme.matchAll(/--build-arg (\w+)=(\S+@sha256:\S+)/g)].map(([, name, value]) => [name, value]);
  const pinned = readDockerfile(text, Object.fromEntries(given));
  assert.ok(pinned.length === 5 && given.length === 2);
  for (const { base } of pinned) assert.match(base, /^[a-z0-9./:-]+@sha256:\S+$/);
  assert.deepEqual(
    stages.map(({ base }) => base),
    pinned.map(({ base }) => base.slice(0, base.indexOf("@"))),
    "the README names the images that are used without",
  );
  const installing = pinned.flatMap(({ steps }) =>
    steps.flatMap((step) =>
      step.kind === "run" && /npm (ci|install)/.test(step.command.join(" ")) ? [step.command] : [],
    ),
  );
  assert.equal(installing.length, 1);
  for (const command of installing) assert.match(command.join(" "), / --ignore-scripts\b/);
});

test("without a target the functions' image is built, and two others are built by their names, on the same base", () => {
  assert.deepEqual(
    stages.slice(-3).map(({ name }) => name),
    ["agent", "process-manager", ""],
  );
  for (const target of [agent, manager]) {
    assert.equal(target.base, image.base);
    const copied = target.steps.flatMap((step) => (step.kind === "copy" ? [[step.from, ...step.paths]] : []));
    assert.deepEqual(copied, [["build", `/build/dist/${target.name}`, "/sluice"]]);
  }
});

test("the manifests run each image as the user that it has: the agent's as root, and no other", async () => {
  const base = join(project, "knative/base");
  const written = globSync("**/*.yaml", { cwd: base }).map(async (path) => {
    const manifest = await readFile(join(base, path), "utf8");
    const users = [...manifest.matchAll(/runAsUser: (\d+)/g)].map(([, user]) => `${user}:${user}`);
    return { isAgent: path === "fencing-agents/agents.yaml", users };
  });
  const manifests = await Promise.all(written);
  const usersIn = (isAgent: boolean) =>
    manifests.filter((one) => one.isAgent === isAgent).flatMap(({ users }) => users);
  assert.deepEqual(new Set(usersIn(false)), new Set(usersOf(image)));
  assert.deepEqual([usersIn(true), usersOf(agent)], [["0:0"], ["0:0"]]);
  assert.deepEqual([usersOf(image), usersOf(manager)], [["65532:65532"], ["65532:65532"]]);
});
