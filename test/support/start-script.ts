/** How Sluice is started: by the script in its package.json, and in no other way. */
import { readFileSync, statSync } from "node:fs";
import { resolve } from "node:path";

/**
 * How a checkout of Sluice is started by its own account, whatever its layout. Throws, with the reason, if the folder is no
 * checkout that can be started.
 */
export function startScriptOf(directory: string): ReturnType<typeof parseScript> {
  const manifest = readManifest(directory);
  if (manifest.name !== "sluice") throw new Error("its package.json is not Sluice's");
  if (typeof manifest.scripts?.start !== "string") throw new Error("its package.json has no script start");
  if (!statSync(resolve(directory, "node_modules"), { throwIfNoEntry: false })?.isDirectory()) {
    throw new Error("it has no node_modules; run npm ci there");
  }
  return parseScript(manifest.scripts.start);
}

function readManifest(directory: string): { name?: unknown; scripts?: { start?: unknown } } {
  let text: string;
  try {
    text = readFileSync(resolve(directory, "package.json"), "utf8");
  } catch {
    throw new Error("it has no package.json");
  }
  try {
    return JSON.parse(text);
  } catch {
    throw new Error("its package.json is not JSON");
  }
}

/** Splits a script of package.json into its assignments and its command. It may have no quotes and no shell syntax. */
export function parseScript(script: string): { assignments: Record<string, string>; words: string[] } {
  if (/["'$&|;<>\\`]/.test(script)) throw new Error(`the script ${JSON.stringify(script)} needs a shell`);
  const words = script.split(/\s+/).filter(Boolean);
  const assignments: Record<string, string> = {};
  for (let match = /^(\w+)=(.*)$/.exec(words[0] ?? ""); match !== null; match = /^(\w+)=(.*)$/.exec(words[0] ?? "")) {
    assignments[match[1] as string] = match[2] as string;
    words.shift();
  }
  return { assignments, words };
}
