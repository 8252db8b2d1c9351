/** The Tab key with names that an account may choose: a real bash, with the completion scripts of kubectl. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { type TestContext, test } from "node:test";
import { promisify } from "node:util";
import { run } from "../../../../triggers/plugin/command.ts";
import { Harness, namespace, played } from "../../shared/reconcile/harness.ts";
import { addLedger } from "./leases.ts";

const execute = promisify(execFile);
const scripts = ["1.8.1", "1.10.2"].map((version) =>
  join(import.meta.dirname, `../../../fixtures/completion/cobra-${version}.bash`),
);

/** Each would create a file `ran` in the shell's folder if the shell ran it. */
const hostile = [
  "-n",
  "--kubeconfig",
  "$(touch ran)",
  `$(touch\${IFS}ran)`,
  "`touch ran`",
  "a;touch ran",
  "a b",
  "a\ntouch ran",
  "a\n$(touch ran)",
  "<(touch ran)",
  '"$(touch ran)"',
  "'; touch ran; '",
  "a|touch ran",
  "a&touch ran",
  `\${x:=$(touch ran)}`,
  "$((a[$(touch ran)]))",
  "~",
  "*",
  "a\\",
  "-group$",
  "zoné",
  "a\u200b",
];
const honest = ["budget:guarded", "group", "owner:Deployment.apps/web", "UPPER_case.1-2"];

/** What the plugin prints for the words after `kubectl sluice`, in a namespace with ledgers of such groups. */
async function offered(words: readonly string[], groups: readonly string[]): Promise<string> {
  const harness = await new Harness().prepare();
  for (const group of groups) if (group !== "group") addLedger(harness, group);
  let out = "";
  const terminal = {
    connect: async () => ({
      cluster: harness.cluster,
      namespace,
      askEviction: async () => {},
      ready: async () => ({}),
      close: async () => {},
    }),
    out(text: string) {
      out += text;
    },
    err: () => {},
    emphasize: (text: string) => text,
  };
  await played(harness.timeline, run(["__complete", ...words], terminal));
  return out;
}

/**
 * The function `_init_completion` of bash-completion, as far as these scripts use it; then the Tab key after `kubectl
 * sluice why `.
 */
const pressTab = `
_init_completion() { COMPREPLY=(); words=("\${COMP_WORDS[@]}"); cword=$COMP_CWORD; cur=\${words[cword]}; prev=\${words[cword-1]}; }
source "$1"
COMP_WORDS=(kubectl sluice why ""); COMP_CWORD=3; COMP_LINE="kubectl sluice why "; COMP_POINT=\${#COMP_LINE}; COMP_TYPE=$2
__start_kubectl
printf '%s\\n' "\${COMPREPLY[@]}"
`;

interface Pressed {
  readonly names: readonly string[];
  /** The new files in the shell's folder. */
  readonly made: readonly string[];
}

/** What the shell offers if kubectl prints `text`. `type` is bash's: 9 lists the choices, 37 cycles through them. */
async function press(context: TestContext, script: string, text: string, type: number): Promise<Pressed> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-tab-"));
  context.after(() => rm(folder, { recursive: true, force: true }));
  const [bin, work] = await Promise.all(["bin-", "work-"].map((name) => mkdtemp(join(folder, name))));
  assert.ok(bin !== undefined && work !== undefined);
  await writeFile(join(folder, "text"), text);
  await writeFile(join(bin, "kubectl"), `#!/bin/sh\nexec cat '${join(folder, "text")}'\n`, { mode: 0o755 });
  const env = { ...process.env, PATH: [bin, process.env.PATH].join(delimiter) };
  const args = ["--norc", "--noprofile", "-c", pressTab, "bash", script, String(type)];
  const { stdout } = await execute("bash", args, { cwd: work, env });
  return { names: stdout.split("\n").filter(Boolean), made: await readdir(work) };
}

test("the completion script of cobra 1.8.1 runs an unescaped name, so this test would detect one", async (context) => {
  const [old = ""] = scripts;
  for (const name of ["$(touch ran)", "`touch ran`"]) {
    assert.deepEqual((await press(context, old, `group\n${name}\n:4\n`, 9)).made, ["ran"], name);
  }
});

test("no name of a group runs anything when a user presses Tab, and harmless names are offered", async (context) => {
  const text = await offered(["why", ""], [...honest, ...hostile]);
  for (const script of scripts) {
    for (const type of [9, 37]) {
      const { names, made } = await press(context, script, text, type);
      assert.deepEqual(made, [], `${script} ${type}`);
      assert.deepEqual(names, [...honest].sort(), `${script} ${type}`);
    }
  }
});

test("the plugin offers only names of groups that consist of letters, digits and ._:/-", async () => {
  for (const name of hostile) assert.equal(await offered(["why", ""], [name]), "group\n:4\n", JSON.stringify(name));
  for (const name of honest) assert.ok((await offered(["why", ""], [name])).split("\n").includes(name), name);
});
