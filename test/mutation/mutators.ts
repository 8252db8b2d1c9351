/**
 * The changes: each operator, condition, number, truth value, compared text, early exit and call without a result, and methods
 * that come in pairs. `test/README.md` describes them in words; what is never changed is at the end.
 */
import type { AnyNode, BinaryExpression, CallExpression, Expression, Literal, Super } from "acorn";

/** How an unchanged run shows whether it would notice a change. */
export type Felt =
  /** Whenever the place is reached. */
  | { readonly kind: "reached" }
  /** When the other operator gives another value for the same operands. */
  | { readonly kind: "operands"; readonly operator: string; readonly left: Range; readonly right: Range }
  /** When the value differs from the truth value of the replacement. */
  | { readonly kind: "truth" }
  /** When there is a value at all. */
  | { readonly kind: "present" };

export interface Range {
  readonly start: number;
  readonly end: number;
}

/** A range of the source and its replacements. */
export interface MutationSite extends Range {
  readonly isStatement: boolean;
  readonly felt: Felt;
  readonly replacements: readonly string[];
}

const reached: Felt = { kind: "reached" };
const others: Readonly<Record<string, readonly string[]>> = {
  "<": ["<=", ">="],
  "<=": ["<", ">"],
  ">": [">=", "<="],
  ">=": [">", "<"],
  "===": ["!=="],
  "!==": ["==="],
  "+": ["-"],
  "-": ["+"],
  "*": ["/"],
  "/": ["*"],
  "%": ["*"],
};
/** A Map, because every plain object already has a `toString`. */
const pairs: ReadonlyMap<string, string> = new Map([
  ["some", "every"],
  ["every", "some"],
  ["find", "findLast"],
  ["findLast", "find"],
  ["startsWith", "endsWith"],
  ["endsWith", "startsWith"],
]);
/** Methods that can be removed, so that their receiver remains. */
const dropped: ReadonlySet<string> = new Set(["filter", "sort", "toSorted", "reverse", "toReversed", "slice", "trim"]);
const mathPairs: ReadonlyMap<string, string> = new Map([
  ["min", "max"],
  ["max", "min"],
  ["floor", "ceil"],
  ["ceil", "floor"],
]);
/** A number below this is replaced by the next one; a larger one is a measure, and is halved and doubled. */
const measureFrom = 100;

/** The places that begin at a node. Places of one range come from the outside in. */
export function placesOf(node: AnyNode, ancestors: readonly AnyNode[], script: string): MutationSite[] {
  const parent = ancestors.at(-1);
  return [
    ...dropsOf(node, ancestors, script),
    ...(parent === undefined ? [] : asPart(node, parent)),
    ...expressionsOf(node, ancestors, script),
  ];
}

function place({ start, end }: Range, replacements: readonly string[], felt = reached): MutationSite {
  return { start, end, isStatement: false, felt, replacements };
}

/** Changes of a node in its role for the parent: as a condition, or as an operand whose removal leaves the others to decide. */
function asPart(node: AnyNode, parent: AnyNode): MutationSite[] {
  if (isTested(node, parent)) {
    const isLoop = parent.type !== "IfStatement" && parent.type !== "ConditionalExpression";
    return [place(node, isLoop ? ["false"] : ["true", "false"], { kind: "truth" })];
  }
  if (parent.type === "LogicalExpression") {
    if (parent.operator === "??") {
      const felt: Felt = parent.left === node ? { kind: "present" } : reached;
      return isUndefined(node) ? [] : [place(node, ["undefined"], felt)];
    }
    // Chains are flattened: a && b && c loses a, b or c.
    if (node.type === "LogicalExpression" && node.operator === parent.operator) return [];
    // An object is the value of its chain, and no condition of it.
    if (node.type === "ObjectExpression") return [];
    return [place(node, [parent.operator === "&&" ? "true" : "false"], { kind: "truth" })];
  }
  return [];
}

function isTested(node: AnyNode, parent: AnyNode): boolean {
  const isTest = "test" in parent && parent.test === node && parent.type !== "SwitchCase";
  return isTest && !(node.type === "Literal" && node.value === true);
}

function isUndefined(node: AnyNode): boolean {
  return node.type === "Identifier" && node.name === "undefined";
}

function expressionsOf(node: AnyNode, ancestors: readonly AnyNode[], script: string): MutationSite[] {
  const textOf = ({ start, end }: Range) => script.slice(start, end);
  switch (node.type) {
    case "BinaryExpression":
      return binaries(node, textOf);
    case "LogicalExpression": {
      if (node.operator === "??") return [];
      const other = node.operator === "&&" ? "||" : "&&";
      return [place(node, [`(${textOf(node.left)}) ${other} (${textOf(node.right)})`])];
    }
    case "UnaryExpression":
      return node.operator === "!" || node.operator === "-" ? [place(node, [textOf(node.argument)])] : [];
    case "UpdateExpression": {
      const other = node.operator === "++" ? "--" : "++";
      return [place(node, [node.prefix ? `${other}${textOf(node.argument)}` : `${textOf(node.argument)}${other}`])];
    }
    case "AssignmentExpression": {
      const other = { "+=": "-=", "-=": "+=", "??=": "=", "||=": "=", "&&=": "=" }[node.operator as string];
      return other === undefined ? [] : [place(node, [`${textOf(node.left)} ${other} ${textOf(node.right)}`])];
    }
    case "Literal":
      return literals(node, ancestors.at(-1));
    case "CallExpression":
      return calls(node, ancestors.at(-1), textOf);
    case "SpreadElement":
      return ancestors.at(-1)?.type === "ArrayExpression" ? [place(node.argument, ["[]"])] : [];
    default:
      return [];
  }
}

function binaries(node: BinaryExpression, textOf: (range: Range) => string): MutationSite[] {
  const { operator, left, right } = node;
  // A sum of texts is a text.
  if (operator === "+" && (isText(left) || isText(right))) return [];
  // Only the operator is replaced, so that the brackets of the operands stay.
  const start = left.end + textOf({ start: left.end, end: right.start }).indexOf(operator);
  const before = textOf({ start: node.start, end: start });
  const after = textOf({ start: start + operator.length, end: node.end });
  const replacements = (others[operator] ?? []).map((other) => before + other + after);
  return replacements.length === 0 ? [] : [place(node, replacements, { kind: "operands", operator, left, right })];
}

/** The other operators for a binary expression, in the order of the replacements. */
export function otherOperators(operator: string): readonly string[] {
  return others[operator] ?? [];
}

function literals(node: Literal, parent: AnyNode | undefined): MutationSite[] {
  const { value } = node;
  if (typeof value === "boolean") return [place(node, [String(!value)])];
  if (typeof value === "number") {
    if (value === 0 || value === 1) return [place(node, [String(1 - value)])];
    if (value < measureFrom) return [place(node, [String(value + 1)])];
    return [place(node, [String(Math.floor(value / 2)), String(value * 2)])];
  }
  if (node.regex !== undefined && node.regex !== null) return anchors(node, node.regex);
  const isCompared =
    (parent?.type === "BinaryExpression" && /^[!=]==$/.test(parent.operator)) ||
    (parent?.type === "SwitchCase" && parent.test === node);
  return typeof value === "string" && isCompared ? [place(node, [value === "" ? '"other"' : '""'])] : [];
}

/** Patterns that no longer match a whole text. */
function anchors(
  node: Literal,
  { pattern, flags }: { readonly pattern: string; readonly flags: string },
): MutationSite[] {
  const replacements = [];
  if (/^\^[^|]+$/.test(pattern)) replacements.push(`/${pattern.slice(1)}/${flags}`);
  if (/^[^|]+[^\\|]\$$/.test(pattern)) replacements.push(`/${pattern.slice(0, -1)}/${flags}`);
  return replacements.length === 0 ? [] : [place(node, replacements)];
}

function calls(node: CallExpression, parent: AnyNode | undefined, textOf: (range: Range) => string): MutationSite[] {
  const { callee } = node;
  // The rest of an optional chain must stay in one piece.
  const isMiddle = parent?.type === "MemberExpression" && parent.object === node && textOf(node).includes("?.");
  if (callee.type !== "MemberExpression" || callee.property.type !== "Identifier" || isMiddle) return [];
  const { name } = callee.property;
  const rest = textOf({ start: callee.property.end, end: node.end });
  const named = (other: string) => textOf({ start: node.start, end: callee.property.start }) + other + rest;
  if (callee.object.type === "Identifier" && callee.object.name === "Math") {
    const other = mathPairs.get(name);
    const [first, second] = node.arguments;
    const isPair = node.arguments.length === 2 && node.arguments.every(({ type }) => type !== "SpreadElement");
    const alone =
      isPair && (name === "min" || name === "max") ? [first, second].map((one) => textOf(one as Range)) : [];
    if (name === "abs") return [place(node, [textOf(first as Range)])];
    return other === undefined ? [] : [place(node, [named(other), ...alone])];
  }
  const other = pairs.get(name);
  if (other !== undefined) return [place(node, [named(other)])];
  return dropped.has(name) && !isSuper(callee.object) ? [place(node, [textOf(callee.object)])] : [];
}

function isSuper(node: Expression | Super): node is Super {
  return node.type === "Super";
}

/** Statements that can be removed: calls and assignments, and exits before the end. */
function dropsOf(node: AnyNode, ancestors: readonly AnyNode[], script: string): MutationSite[] {
  const drop = (): MutationSite[] => [{ ...place(node, [""]), isStatement: true }];
  const parent = ancestors.at(-1);
  if (node.type === "ExpressionStatement") {
    const isSuperCall = node.expression.type === "CallExpression" && node.expression.callee.type === "Super";
    return isSuperCall || "directive" in node ? [] : drop();
  }
  const isExit = node.type === "ReturnStatement" || node.type === "ContinueStatement" || node.type === "BreakStatement";
  if (!isExit || parent === undefined || script[node.end - 1] !== ";") return [];
  // The only statement of a branch is covered by its condition, and the last statement of a function is no early exit.
  if (parent.type === "SwitchCase") return parent.consequent.length > 1 ? drop() : [];
  if (parent.type !== "BlockStatement" || parent.body.length < 2) return [];
  const isLast = parent.body.at(-1) === node && isFunction(ancestors.at(-2));
  return isLast ? [] : drop();
}

function isFunction(node: AnyNode | undefined): boolean {
  return node !== undefined && /Function/.test(node.type);
}

/**
 * True for a node that is never changed, with everything in it: imports, and messages. Messages are templates, texts with a
 * space, and the choice between two texts of which one is a message.
 */
export function isWordingOnly(node: AnyNode): boolean {
  if (node.type === "ImportDeclaration") return true;
  if (node.type === "ConditionalExpression") {
    const branches = [node.consequent, node.alternate];
    return branches.every(isMessagePart) && branches.some(isMessageTemplate);
  }
  return node.type === "TemplateLiteral" && isMessageTemplate(node);
}

function isText(node: AnyNode): boolean {
  return node.type === "TemplateLiteral" || (node.type === "Literal" && typeof node.value === "string");
}

function isMessagePart(node: AnyNode): boolean {
  return (
    isText(node) ||
    (node.type === "ConditionalExpression" && isMessagePart(node.consequent) && isMessagePart(node.alternate))
  );
}

function isMessageTemplate(node: AnyNode): boolean {
  if (node.type === "TemplateLiteral") return node.quasis.some(({ value }) => /\s/.test(value.raw));
  if (node.type === "ConditionalExpression")
    return isMessageTemplate(node.consequent) || isMessageTemplate(node.alternate);
  return node.type === "Literal" && typeof node.value === "string" && /\s/.test(node.value);
}
