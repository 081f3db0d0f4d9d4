package signin

import "net/http"

// The cookie's name says what a browser is to hold it to: with __Host- it comes from this host alone, over HTTPS and
// for every path, so that no sister domain and no plain connection can have set it. Over plain HTTP, which is for
// loopback alone, browsers know no such names.
const (
	secureCookie = "__Host-countersign"
	plainCookie  = "countersign"
)

func cookieName(secure bool) string { //nolint:revive // flag-parameter: it is how the browser came
	if secure {
		return secureCookie
	}
	return plainCookie
}

// SetCookie gives a browser its session in answer to a request. secure says that it came over HTTPS.
func SetCookie(w http.ResponseWriter, r *http.Request, secret string, secure bool) {
	ClearCookie(w, r)
	setCookie(w, secret, secure, int(SessionLasts.Seconds()))
}

// ClearCookie takes away what a browser shows.
func ClearCookie(w http.ResponseWriter, r *http.Request) {
	for _, secure := range []bool{true, false} {
		if len(r.CookiesNamed(cookieName(secure))) > 0 {
			setCookie(w, "", secure, -1)
		}
	}
}

func setCookie(w http.ResponseWriter, value string, secure bool, maxAge int) {
	http.SetCookie(w, &http.Cookie{Name: cookieName(secure), Value: value, Path: "/", MaxAge: maxAge, Secure: secure,
		HttpOnly: true, SameSite: http.SameSiteLaxMode})
}

// Cookie returns the secret that a browser shows, "" for none. The name for plain HTTP counts only where that may be
// the way, since any program between could have set it; nor do several of one name, of which one is somebody else's.
func Cookie(r *http.Request, plain bool) string { //nolint:revive // flag-parameter: it is how the browser came
	for _, secure := range []bool{true, false} {
		if !secure && !plain {
			break
		}
		if found := r.CookiesNamed(cookieName(secure)); len(found) == 1 && isSecret(found[0].Value) {
			return found[0].Value
		}
	}
	return ""
}
