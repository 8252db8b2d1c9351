import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { attacks } from "./attacks.ts";
import { type AttackOptions, help, readOptions } from "./options.ts";

function optionsOf(...argv: string[]): AttackOptions {
  const reading = readOptions(argv);
  return reading.kind === "attack" ? reading.options : assert.fail(JSON.stringify(reading));
}

function mistakesOf(...argv: string[]): readonly string[] {
  const reading = readOptions(argv);
  return reading.kind === "wrong" ? reading.mistakes : assert.fail(JSON.stringify(reading));
}

describe("the command line", () => {
  it("has defaults: every attack, short, within 256 MiB", () => {
    const { size, seed, limitBytes, cgroup, out } = optionsOf();
    assert.deepEqual([size, seed, limitBytes, cgroup, out], ["short", 1, 268_435_456, undefined, undefined]);
    assert.deepEqual(optionsOf().attacks, attacks);
  });

  it("chooses among attacks, lengthens them, and takes the limit away", () => {
    const options = optionsOf("--long", "--only", "malformed, idle-sockets", "--seed=7", "--limit=0", "--out=x.md");
    assert.deepEqual(
      options.attacks.map(({ name }) => name),
      ["malformed", "idle-sockets"],
    );
    assert.deepEqual([options.size, options.seed, options.limitBytes, options.out], ["long", 7, undefined, "x.md"]);
    assert.equal(optionsOf("--limit", "512", "--cgroup", "/x").cgroup, "/x");
  });

  it("names every mistake, and what to write", () => {
    assert.deepEqual(mistakesOf("--seed=-1", "--limit=64", "--out=", "--only=drain", "--cgroup="), [
      '--limit is "64"; write an integer from 128 to 65536, or 0 for none',
      `--only holds "drain"; write some of ${attacks.map(({ name }) => name).join(", ")}`,
      '--seed is "-1"; write an integer from 0 to 4294967295',
      "--cgroup is empty; write a path",
      "--out is empty; write a path",
    ]);
    assert.deepEqual(mistakesOf("--limit=0", "--cgroup=/x"), [
      "--cgroup holds a limit, and --limit is 0; leave one out",
    ]);
    assert.match(mistakesOf("--hard").join(), /--hard.*see --help/);
    assert.match(mistakesOf("more").join(), /more/);
  });

  it("helps, with the name of every attack", () => {
    assert.equal(readOptions(["--help", "--long"]).kind, "help");
    for (const { name } of attacks) assert.ok(help.includes(name), name);
  });
});
