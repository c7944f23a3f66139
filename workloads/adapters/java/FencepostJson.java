import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * As much JSON as the lock protocol needs. Objects are maps, arrays are lists, whole numbers are Long, others Double.
 */
final class FencepostJson {
    private final String text;
    private int at;

    private FencepostJson(String text) {
        this.text = text;
    }

    /** Throws IllegalArgumentException if the text is not JSON. */
    static Object read(String text) {
        FencepostJson json = new FencepostJson(text);
        Object value = json.value();
        if (json.peek() != 0) {
            throw json.wrong();
        }
        return value;
    }

    static String write(Object value) {
        StringBuilder out = new StringBuilder();
        write(value, out);
        return out.toString();
    }

    private static void write(Object value, StringBuilder out) {
        if (value instanceof Map<?, ?> map) {
            String before = "{";
            for (Map.Entry<?, ?> entry : map.entrySet()) {
                quote(entry.getKey().toString(), out.append(before));
                write(entry.getValue(), out.append(':'));
                before = ",";
            }
            out.append(map.isEmpty() ? "{}" : "}");
        } else if (value instanceof Iterable<?> items) {
            out.append('[');
            String before = "";
            for (Object item : items) {
                write(item, out.append(before));
                before = ",";
            }
            out.append(']');
        } else if (value == null || value instanceof Number || value instanceof Boolean) {
            out.append(value);
        } else {
            quote(value.toString(), out);
        }
    }

    private static void quote(String text, StringBuilder out) {
        out.append('"');
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ' || Character.isSurrogate(c)) {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }

    private Object value() {
        switch (peek()) {
            case '{':
                Map<String, Object> map = new LinkedHashMap<>();
                for (boolean more = opened('}'); more; more = another('}')) {
                    peek();
                    String key = string();
                    expect(':');
                    map.put(key, value());
                }
                return map;
            case '[':
                List<Object> list = new ArrayList<>();
                for (boolean more = opened(']'); more; more = another(']')) {
                    list.add(value());
                }
                return list;
            case '"':
                return string();
            default:
                return word();
        }
    }

    private Object word() {
        int start = at;
        while (at < text.length() && ",]} \t\r\n".indexOf(text.charAt(at)) < 0) {
            at++;
        }
        String word = text.substring(start, at);
        switch (word) {
            case "null":
                return null;
            case "true":
                return true;
            case "false":
                return false;
            default:
                try {
                    return word.matches("-?\\d+") ? (Object) Long.valueOf(word) : (Object) Double.valueOf(word);
                } catch (NumberFormatException notANumber) {
                    throw wrong();
                }
        }
    }

    private String string() {
        StringBuilder out = new StringBuilder();
        expect('"');
        for (char c = next(); c != '"'; c = next()) {
            if (c != '\\') {
                out.append(c);
                continue;
            }
            char escape = next();
            int plain = "bfnrt".indexOf(escape);
            if (escape == 'u') {
                out.append((char) Integer.parseInt(text.substring(at, at + 4), 16));
                at += 4;
            } else {
                out.append(plain < 0 ? escape : "\b\f\n\r\t".charAt(plain));
            }
        }
        return out.toString();
    }

    /** Whether an object or array, whose bracket is next, has anything in it. */
    private boolean opened(char close) {
        at++;
        if (peek() != close) {
            return true;
        }
        at++;
        return false;
    }

    private boolean another(char close) {
        char c = peek();
        at++;
        if (c != ',' && c != close) {
            throw wrong();
        }
        return c == ',';
    }

    private void expect(char expected) {
        if (peek() != expected) {
            throw wrong();
        }
        at++;
    }

    /** The next character that is no white space; 0 at the end. */
    private char peek() {
        while (at < text.length() && Character.isWhitespace(text.charAt(at))) {
            at++;
        }
        return at < text.length() ? text.charAt(at) : 0;
    }

    private char next() {
        if (at >= text.length()) {
            throw wrong();
        }
        return text.charAt(at++);
    }

    private IllegalArgumentException wrong() {
        return new IllegalArgumentException("not JSON, from character " + at + ": " + text);
    }
}
