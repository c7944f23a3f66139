<?php
// The adapters' side of the lock protocol (docs/lock-protocol.md) for PHP, without dependencies.
//
// An adapter requires this file and calls `serve` with a function that opens its library and returns an object:
//
//     serve(function (array $nodes, array $settings) {
//         return new class … {
//             function describe(): array { return ['library' => 'my-lock 1.2.3']; }
//             function acquire(string $key, int $ttl_ms): array { return ok(['value' => $value, …]); }
//             function extend(string $key, string $value, int $ttl_ms): array { … }
//             function release(string $key, string $value): array { … }
//         };
//     });
//
// What the library tells its user decides how a grant is answered:
//
// - A deadline of the wall clock, compared with microtime(): `until_wall_clock`.
// - Nothing but "yes", or a duration: `timed`, whose bounds are the start and the end of the call.
//
// A program in PHP has one thread, so it serves one task, and a call that hangs ends with the process: the harness ends it.

namespace Fencepost;

const ERROR_CHARACTERS = 500;
const NS_PER_S = 1_000_000_000;
const CLOCKS_WITHIN_NS = 50_000;
const READINGS = 20;

/** CLOCK_MONOTONIC in nanoseconds, which all processes of a host share. */
function now_ns(): int
{
    return hrtime(true);
}

/** It happened. The fields are those of the protocol; a `value` may be any bytes. */
function ok(array $fields = []): array
{
    if (isset($fields['value']) && !preg_match('//u', $fields['value'])) {
        $fields['value_base64'] = base64_encode($fields['value']);
        unset($fields['value']);
    }
    return ['outcome' => 'ok'] + $fields;
}

/** It certainly did not happen. `$error`: what the library said. */
function fail(string $error = ''): array
{
    return ['outcome' => 'fail'] + ($error === '' ? [] : ['error' => one_line($error)]);
}

/** Unknown whether it happened. */
function info(string|\Throwable $error): array
{
    return ['outcome' => 'info', 'error' => one_line($error)];
}

/** The result of the call, and the fields that bound when a lease began of which the library says nothing but yes, or when
 * the duration was computed that it returned. */
function timed(callable $call): array
{
    $began_ns = now_ns();
    $result = $call();
    return [$result, ['computed_after_ns' => $began_ns, 'computed_before_ns' => now_ns()]];
}

/** The fields of a lease that ends when microtime(true) reaches this, with the earliest reading of that time. The wall clock
 * is read between two readings of CLOCK_MONOTONIC; of several, those that are the closest count. */
function until_wall_clock(float $expires_s): array
{
    $width_ns = PHP_INT_MAX;
    for ($reading = 0; $reading < READINGS && $width_ns > CLOCKS_WITHIN_NS; $reading++) {
        $before_ns = now_ns();
        $wall_s = microtime(true);
        if (now_ns() - $before_ns < $width_ns) {
            $width_ns = now_ns() - $before_ns;
            $deadline_ns = $before_ns + (int) floor(($expires_s - $wall_s) * NS_PER_S);
        }
    }
    return ['deadline_ns' => $deadline_ns];
}

/** The version of an installed package of Debian, without Debian's own additions, for `describe`. */
function version_of(string $package): string
{
    $versions = json_decode(file_get_contents(__DIR__ . '/versions.json'), true);
    return preg_replace('/^\d+:|[+-].*$/', '', $versions[$package]);
}

/** Answers requests until stdin ends. An exception is answered with `info`, because it is unknown how far the call got (while
 * opening: with `fail`); its trace goes to stderr, and so does what the library prints. */
function serve(callable $open): void
{
    ini_set('display_errors', 'stderr');
    set_time_limit(0);
    ob_start(function (string $printed): string {
        fwrite(STDERR, $printed);
        return '';
    }, 1);
    $adapter = null;
    while (($line = fgets(STDIN)) !== false) {
        $request = json_decode($line, true, flags: JSON_THROW_ON_ERROR);
        try {
            $answer = $request['do'] === 'open' ? opened($open, $request, $adapter) : answer_to($adapter, $request);
        } catch (\Throwable $error) {
            fwrite(STDERR, "$error\n");
            $answer = $request['do'] === 'open' ? fail(one_line($error)) : info($error);
        }
        if (isset($request['task'])) {
            $answer['task'] = $request['task'];
        }
        fwrite(STDOUT, json_encode($answer, JSON_THROW_ON_ERROR | JSON_INVALID_UTF8_SUBSTITUTE) . "\n");
        if ($request['do'] === 'close') {
            break;
        }
    }
}

function opened(callable $open, array $request, ?object &$adapter): array
{
    $settings = $request['settings'];
    if (($settings['tasks'] ?? 1) > 1) {
        return fail('a program in PHP has one thread, so tasks cannot share its lock (--tasks)');
    }
    $adapter = $open($request['nodes'], $settings);
    if (isset($settings['renewal_ms']) && !method_exists($adapter, 'held')) {
        return fail('this adapter cannot say whether a lock is still held (--renewal)');
    }
    return ok(['describe' => $adapter->describe()]);
}

function answer_to(object $adapter, array $request): array
{
    $verb = $request['do'];
    if ($verb === 'close') {
        return ok();
    }
    $value = isset($request['value_base64']) ? base64_decode($request['value_base64']) : $request['value'] ?? '';
    $given = match ($verb) {
        'acquire' => [$request['key'], $request['ttl_ms']],
        'extend' => [$request['key'], $value, $request['ttl_ms']],
        'release', 'held' => [$request['key'], $value],
        default => null,
    };
    if ($given === null || !method_exists($adapter, $verb)) {
        return fail("this adapter does not support $verb");
    }
    return $adapter->$verb(...$given);
}

function one_line(string|\Throwable $error): string
{
    $text = is_string($error) ? $error : $error::class . ': ' . $error->getMessage();
    return substr(trim(preg_replace('/\s+/', ' ', $text)), 0, ERROR_CHARACTERS);
}
