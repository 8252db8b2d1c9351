/**
 * What the image runs: the bundle of the function that FUNCTION names, or the one of all of them. There is no shell in the image
 * that could choose.
 *
 * Compiled code is read from the folder `compiled` beside this file, which `compile.ts` writes. Node takes it only if its
 * version, its flags and the user are those that wrote it; where they are not, all is compiled again, and that is all.
 */
export {};

// By name, and not imported: that would read all that they have.
const { existsSync } = process.getBuiltinModule("node:fs");
const { enableCompileCache } = process.getBuiltinModule("node:module");

const here = import.meta.dirname;
const compiled = `${here}/compiled`;
// Made elsewhere and moved: the paths in it are relative.
if (existsSync(compiled)) enableCompileCache({ directory: compiled, portable: true });

const name = process.env.FUNCTION?.trim() || "all";
const own = `${here}/${name}/main.mjs`;
// Several names are for the bundle of all, and so is one that is none: it says so.
await import(/^[a-z-]+$/.test(name) && existsSync(own) ? own : `${here}/all/main.mjs`);
